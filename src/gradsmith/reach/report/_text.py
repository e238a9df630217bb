"""The report as text, for pipes and terminals of 60 columns and more."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence

from rich.cells import cell_len
from rich.columns import Columns
from rich.console import Group
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from gradsmith.check._finding import FAMILIES
from gradsmith.check.report._matrix import TRANSFORMS
from gradsmith.check.report._plain import clean, count
from gradsmith.check.report._text import _heading, _indented, _paragraph
from gradsmith.reach._verdict import Verdict
from gradsmith.reach.report._function_text import Block, blocks_of, paste, printed
from gradsmith.reach.report._places import Places
from gradsmith.reach.report._summary import BROKEN, PackageReport, grouped, letter, standing, title

__all__ = ["render"]

_STYLE = {"right": "green", "wrong": "bold red", "known": "yellow", **dict.fromkeys(BROKEN, "bold red")}
_SOURCE = {"case": "cases", "recorded": "recorded calls", "call site": "call sites", "search": "search"}
_SHORT = {"multiple of the derivative": "multiple", "projection or convention": "convention"}
_ROOM_FOR_MATRIX = 100  # columns from which the table also says what each transform does
_MOST_CODES = 4  # of one function, in the table
_MOST_WORDS = 300  # characters of a reason; the error itself may be a page


def render(report: PackageReport, *, colour: bool = False, width: int | None = None) -> str:
    """The whole report, `width` columns wide, by default as wide as the terminal (60 to 120)."""
    width = max(60, width or min(120, shutil.get_terminal_size((100, 24)).columns))
    return printed(_blocks(report, width), width, colour)


def _blocks(report: PackageReport, width: int) -> Iterator[Block]:
    places = Places(report.package)
    yield from _header(report)
    yield from _functions(report.verdicts, width)
    for verdict in report.verdicts:
        if verdict.open or verdict.kind in BROKEN:
            yield from blocks_of(verdict, places)
    yield from _meant(report.verdicts)
    yield from _not_exercised(report, places)
    yield from _remarks(report, places)
    yield Text("")
    yield Text(report.sentence, style="bold green" if report.ok else "bold red")


def _header(report: PackageReport) -> Iterator[Block]:
    line = Text(title(report.package), style="bold")
    how = ", ".join(f"{n} by {_SOURCE[source]}" for source, n in report.sources.items() if n)
    exempt = len(report.package.found) - len(report.checkable)
    words = [count(len(report.checkable), "custom gradient")]
    words += [f"{len(report.exercised)} exercised" + (f" ({how})" if how else "")] if report.checkable else []
    words += [f"{exempt} more without a gradient of their own"] if exempt else []
    words += [f"{report.seconds:.0f} s"] if report.seconds >= 1 else []
    yield line
    yield _paragraph(", ".join(words), indent=0, hanging=2)


# --- the table ---------------------------------------------------------------------------------------


def _functions(verdicts: Sequence[Verdict], width: int) -> Iterator[Block]:
    """One line for each that was run, under the name of its module; the others follow with their reasons."""
    shown = [v for v in verdicts if v.kind != "not exercised"]
    if not shown:
        return
    wide = width >= _ROOM_FOR_MATRIX and any(v.matrix for v in shown)
    letters = "".join(chr(ord("a") + place) for place in range(len(TRANSFORMS)))
    head = ("function", "verdict", "inputs", "intent", *([letters] if wide else []), "findings")
    rows: list[tuple[Text, ...]] = [tuple(Text(name, style="dim") for name in head)]
    module = None
    for verdict in shown:
        if verdict.found.module != module:
            module = verdict.found.module
            rows.append((Text(clean(module), style="dim"),))
        rows.append(tuple(_row(verdict, wide)))
    yield Text("")
    yield _indented(_fitted(rows, len(head), width - 2))
    if wide:
        named = [Text(f"{letters[place]} {name}", style="dim") for place, name in enumerate(TRANSFORMS)]
        legend = Text("+ right, - refused, X wrong, . not tried", style="dim")
        yield Padding(Group(Columns(named, padding=(0, 2)), legend), (1, 0, 0, 4))


def _fitted(rows: list[tuple[Text, ...]], columns: int, width: int) -> Table:
    """A table without lines. Names give way where there is too little room; codes and verdicts never do."""
    longest = [max((row[place].cell_len for row in rows if len(row) > place), default=0) for place in range(columns)]
    room = width - sum(longest[1:]) - 2 * (columns - 1)
    table = Table.grid(padding=(0, 2, 0, 0))
    for place in range(columns):
        most = max(14, min(longest[0], room)) if place == 0 else longest[place]
        table.add_column(no_wrap=True, overflow="ellipsis", width=most)
    for first, *rest in rows:
        table.add_row(_tail(first, max(14, room)), *rest)
    return table


def _row(verdict: Verdict, wide: bool) -> Iterator[Text]:
    word = standing(verdict)
    yield Text("  " + clean(verdict.found.name))
    yield Text(word, style=_STYLE.get(word, ""))
    yield Text(verdict.source, style="dim" if verdict.guessed else "")
    yield Text(_SHORT.get(verdict.intent, verdict.intent))
    if wide:
        status = {row["transform"]: row["status"] for row in verdict.matrix}
        cells = Text()
        for name in TRANSFORMS:
            cell = letter(status.get(name, ""))
            cells.append(cell, style="bold red" if cell == "X" else "")
        yield cells
    yield Text(_codes(verdict))


def _tail(name: Text, most: int) -> Text:
    """What tells long names apart stands at their end."""
    if name.cell_len <= most:
        return name
    text = name.plain.lstrip()
    indent = " " * (len(name.plain) - len(text))
    while text and cell_len(f"{indent}...{text}") > most:
        text = text[1:]
    return Text(f"{indent}...{text}", style=name.style)


def _codes(verdict: Verdict) -> str:
    codes = list(dict.fromkeys(clean(f["rule"]) for f in verdict.open or verdict.findings))
    more = f" +{len(codes) - _MOST_CODES}" if len(codes) > _MOST_CODES else ""
    return " ".join(codes[:_MOST_CODES]) + more


# --- what is no finding ------------------------------------------------------------------------------


def _meant(verdicts: Sequence[Verdict]) -> Iterator[Block]:
    """What is meant to differ from the derivative, by class, with one declaration of each class to paste."""
    classes: dict[str, list[Verdict]] = {}
    for verdict in verdicts:
        if verdict.intent not in ("", "derivative", "declared"):
            classes.setdefault(verdict.intent, []).append(verdict)
    rules = grouped((clean(n["rule"]), v.found.id) for v in verdicts for n in v.notes)
    if not classes and not rules:
        return
    yield _heading("Notes")
    for intent, members in classes.items():
        yield _paragraph(f"{intent} ({len(members)}): {_names([v.found.id for v in members])}", indent=2, hanging=2)
        first = next((v for v in members if v.declaration), members[0])
        if first.intent_why:
            only = "" if len(members) == 1 else f"{clean(first.found.name)}: "
            yield _paragraph(f"{only}{first.intent_why}", indent=4, hanging=2, style="dim")
        if first.declaration:
            yield from paste("  to declare it" if len(members) == 1 else "  to declare such a one", first.declaration)
    if rules:
        told = ", ".join(f"{rule} ({len(set(ids))})" for rule, ids in sorted(rules))
        yield _paragraph(f"no faults, told in --json and --html: {told}", indent=2, hanging=2)


def _not_exercised(report: PackageReport, places: Places) -> Iterator[Block]:
    left = [(_reason(v.why, places), v.found.id) for v in report.verdicts if v.kind == "not exercised"]
    if left:
        yield _heading(f"Not exercised: {len(left)}")
        yield from _grouped(left)
    if report.package.unread:
        yield _heading(f"Modules that did not import: {len(report.package.unread)}")
        yield from _grouped([(_reason(u.why, places), u.module) for u in report.package.unread])
    if report.pending:
        yield _heading(f"Not reached before the interruption: {len(report.pending)}")
        yield _paragraph(_names([f.id for f in report.pending]), indent=2, hanging=2)


def _grouped(pairs: list[tuple[str, str]]) -> Iterator[Block]:
    for reason, names in grouped(pairs):
        yield _paragraph(reason, indent=2, hanging=2)
        yield _paragraph(_names(names), indent=4, hanging=2, style="dim")


def _reason(why: str, places: Places) -> str:
    words = " ".join(clean(places.short(why)).split()) or "no reason is known"
    return words if len(words) <= _MOST_WORDS else words[: _MOST_WORDS - 4] + " ..."


def _names(ids: Sequence[str]) -> str:
    """Ids, each module once: "pkg.ops: A, B; pkg.nn: C"."""
    modules: dict[str, list[str]] = {}
    for one in ids:
        module, colon, name = one.partition(":")
        plain = bool(colon) and not name.startswith(":")
        modules.setdefault(module if plain else "", []).append(name if plain else one)
    return "; ".join((f"{module}: " if module else "") + ", ".join(names) for module, names in modules.items())


def _remarks(report: PackageReport, places: Places) -> Iterator[Block]:
    if len(report.families) > 1:
        named = ", ".join(f"{FAMILIES.get(family, family)} {n}" for family, n in report.families.items())
        yield _heading("Findings by family")
        yield _paragraph(named, indent=2, hanging=2)
    if report.remarks:
        yield _heading("Remarks")
        for remark in report.remarks:
            yield _paragraph(places.short(remark), indent=2, hanging=2)
    codes = sorted({str(f["rule"]) for v in report.verdicts for f in v.open})
    if codes:
        yield Group(Text(""), Text(f"gradsmith explain {clean(codes[0])} tells more about a rule.", style="dim"))
