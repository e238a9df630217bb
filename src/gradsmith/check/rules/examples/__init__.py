"""The bad and the good example of every rule, as source text that is run by the tests."""
