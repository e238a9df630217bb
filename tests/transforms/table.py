"""The support table as text: outcomes in, Markdown out, and back again."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from tests.transforms.cases import CASES
from tests.transforms.group import Group
from tests.transforms.variants import GROUPS

Cell = tuple[str, str]  # case and variant, by name
Outcome = tuple[str, str]  # "right", "refused" or "skipped", and the reason
Outcomes = Mapping[Cell, Outcome]

ROOT = Path(__file__).parents[2]
DOCUMENT = ROOT / "docs" / "transforms.md"
README = ROOT / "README.md"
BEGIN, END = "<!-- transforms:begin -->", "<!-- transforms:end -->"

SIGNS = {"right": "✓", "refused": "refused", "skipped": "–"}
INTRODUCTION = """\
# The support table

<!-- Written by `make table` from a test run; do not edit. -->

Each cell is a test that compares numbers with the declared gradient, worked out independently in double precision:
the absence of an error is not enough.

* ✓ the value and the gradient are right;
* refused: being right is impossible there, and a clear error says so (the tests assert which);
* – the combination makes no sense.

The rows of torch.export and ONNX are about values: an exported program computes the forward. It holds no declared
gradient, so train before exporting.
"""


def document(outcomes: Outcomes) -> str:
    """The whole table, one section per group."""
    reasons: list[str] = []

    def sign(case: str, variant: str) -> str:
        kind, reason = outcomes[case, variant]
        if not reason:
            return SIGNS[kind]
        if reason not in reasons:
            reasons.append(reason)
        return f"{SIGNS[kind]} [{reasons.index(reason) + 1}]"

    parts = [INTRODUCTION]
    names = [case.name for case in CASES]
    for group in GROUPS:
        rows = [[v.name, *[sign(name, v.name) for name in names]] for v in group]
        parts.append(f"## {group.headline}\n\n{_markdown(['', *names], rows)}")
    notes = "\n".join(f"{i}. {reason}" for i, reason in enumerate(reasons, 1))
    return "\n".join([*parts, f"## Reasons\n\n{notes}\n"])


def outcomes_in(text: str) -> dict[Cell, Outcome]:
    """What a document says, for cells that did not run this time."""
    reasons = dict(re.findall(r"^(\d+)\. (.+)$", text, re.MULTILINE))
    kinds = {sign: kind for kind, sign in SIGNS.items()}
    found: dict[Cell, Outcome] = {}
    names: list[str] = []
    for line in text.splitlines():
        if not line.startswith("|"):
            continue
        first, *cells = [cell.strip() for cell in line.strip("|").split("|")]
        if not first:
            names = cells
        for name, cell in zip(names, cells, strict=False):
            if match := re.fullmatch(r"(\S+)(?: \[(\d+)\])?", cell):
                sign, number = match.groups()
                if sign in kinds:
                    found[name, first] = kinds[sign], reasons.get(number, "")
    return found


def compact(outcomes: Outcomes) -> str:
    """A row per group, a column per operation; those declared in the tests share one."""
    columns: dict[str, list[str]] = {}
    for case in CASES:
        column = "your own" if case.name.startswith("declared:") else f"`{case.name}`"
        columns.setdefault(column, []).append(case.name)
    notes: list[str] = []
    rows = [
        [
            f"**{group.headline}**: {group.covers}",
            *[_summary(group, names, outcomes, notes) for names in columns.values()],
        ]
        for group in GROUPS
    ]
    text = _markdown(["", *columns], rows)
    if notes:
        text += "\nRefused:\n\n" + "".join(f"{i}. {note}\n" for i, note in enumerate(notes, 1))
    return text


def _summary(group: Group, names: list[str], outcomes: Outcomes, notes: list[str]) -> str:
    """Right, with a note for each reason to refuse."""
    marks: list[str] = []
    for name in names:
        for variant in group:
            kind, reason = outcomes[name, variant.name]
            if kind == "refused" and reason not in notes:
                notes.append(reason)
            if kind == "refused" and (mark := f"[{notes.index(reason) + 1}]") not in marks:
                marks.append(mark)
    return f"right, refused {' '.join(marks)}" if marks else "right"


def _markdown(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---", *[":-:"] * (len(head) - 1)], *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def with_compact(readme: str, table: str) -> str:
    """The README with the table between its markers, which are added at the end where they lack."""
    if BEGIN not in readme or END not in readme:
        readme = f"{readme.rstrip()}\n\n{BEGIN}\n{END}\n"
    before, rest = readme.split(BEGIN, 1)
    return f"{before}{BEGIN}\n{table}{END}{rest.split(END, 1)[1]}"


def write(outcomes: Outcomes) -> None:
    DOCUMENT.parent.mkdir(exist_ok=True)
    DOCUMENT.write_text(document(outcomes), encoding="utf-8")
    README.write_text(with_compact(README.read_text(encoding="utf-8"), compact(outcomes)), encoding="utf-8")


def outdated(outcomes: Outcomes) -> list[str]:
    """The files that say something else than these outcomes; cells that are missing here may say anything."""
    written = DOCUMENT.read_text(encoding="utf-8") if DOCUMENT.exists() else ""
    readme = README.read_text(encoding="utf-8")
    filled = {**outcomes_in(written), **outcomes}
    try:
        expected = {DOCUMENT: document(filled), README: with_compact(readme, compact(filled))}
    except KeyError:  # a row or column is new
        return [DOCUMENT.name, README.name]
    return [path.name for path, text in expected.items() if text != {DOCUMENT: written, README: readme}[path]]
