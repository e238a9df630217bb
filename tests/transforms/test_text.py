"""The support table's text: what is written can be read again, and what is out of date is noticed."""

import pytest

from tests.transforms import table
from tests.transforms.cases import CASES
from tests.transforms.variants import VARIANTS


@pytest.fixture
def outcomes():
    kinds = [("right", ""), ("refused", "it cannot be right"), ("skipped", "takes one tensor"), ("refused", "no way")]
    cells = [(case.name, variant.name) for case in CASES for variant in VARIANTS]
    return {cell: kinds[i % 4] for i, cell in enumerate(cells)}


@pytest.fixture
def written(outcomes, tmp_path, monkeypatch):
    monkeypatch.setattr(table, "DOCUMENT", tmp_path / "docs" / "transforms.md")
    monkeypatch.setattr(table, "README", tmp_path / "README.md")
    table.README.write_text(f"before\n{table.BEGIN}\nold\n{table.END}\nafter\n")
    table.write(outcomes)


def test_names_are_unique_and_fit_into_a_table():
    names = [variant.name for variant in VARIANTS]
    assert len(set(names)) == len(names)
    assert not any("|" in name for name in [*names, *[case.name for case in CASES]])


def test_document_can_be_read_again(outcomes):
    assert table.outcomes_in(table.document(outcomes)) == outcomes


def test_readme_changes_between_the_markers_only(outcomes, written):
    text = table.README.read_text()
    assert text == f"before\n{table.BEGIN}\n{table.compact(outcomes)}{table.END}\nafter\n"
    assert table.with_compact("none yet\n", "new\n") == f"none yet\n\n{table.BEGIN}\nnew\n{table.END}\n"


def test_what_was_written_is_up_to_date(outcomes, written):
    assert table.outdated(outcomes) == []
    some = dict(list(outcomes.items())[::3])
    assert table.outdated(some) == []


@pytest.mark.parametrize("change", ["skipped", "right", "other reason", "new column"])
def test_another_outcome_is_out_of_date(outcomes, written, change):
    cell = next(cell for cell, (kind, _) in outcomes.items() if kind == "refused")
    changed = {
        "skipped": {cell: ("skipped", "takes one tensor")},
        "right": {cell: ("right", "")},
        "other reason": {cell: ("refused", "another reason")},
        "new column": {},
    }[change]
    if change == "new column":
        table.DOCUMENT.write_text(table.DOCUMENT.read_text().replace(CASES[0].name, "renamed"))
        outcomes = {}
    assert "transforms.md" in table.outdated({**outcomes, **changed})
