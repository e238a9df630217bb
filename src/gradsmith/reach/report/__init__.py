"""What came of a package: text, JSON, HTML, JUnit XML, SARIF."""
