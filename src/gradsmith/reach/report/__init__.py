"""What came of a package, shown: as text, as data, as a page, for test and code-scanning views. Nothing imports torch.

Each takes a `PackageReport`: `render`, `json_text`, `html_page`, `junit_xml`, `sarif_text`; `verdict_text` takes one
`Verdict`.
"""

from gradsmith.reach.report._function_text import verdict_text
from gradsmith.reach.report._html import html_page
from gradsmith.reach.report._json import json_text
from gradsmith.reach.report._junit import junit_xml
from gradsmith.reach.report._sarif import sarif_text
from gradsmith.reach.report._summary import PackageReport
from gradsmith.reach.report._text import render

__all__ = ["PackageReport", "html_page", "json_text", "junit_xml", "render", "sarif_text", "verdict_text"]
