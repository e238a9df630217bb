"""The examples in the documents run and print what they say."""

import doctest
import sys
import types
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("**/*.md"))]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_examples_run(document: Path) -> None:
    # torch.compile looks names up in the module a function belongs to, so the examples get a real one.
    module = types.ModuleType(document.stem)
    sys.modules[document.stem] = module
    examples = doctest.DocTestParser().get_doctest(document.read_text(), {}, document.name, str(document), 0)
    examples.globs = vars(module)
    results = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE).run(examples, clear_globs=False)
    assert results.failed == 0
