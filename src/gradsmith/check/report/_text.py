"""The report as text, for pipes and terminals of 60 columns and more."""

from __future__ import annotations

import io
import shutil
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from gradsmith.check._finding import FAMILIES, Finding, Rule
from gradsmith.check.report._plain import clean, count, tensor

if TYPE_CHECKING:
    from gradsmith.check.report._report import Report

__all__ = ["facts", "failure_text", "markdown", "render", "renderable", "rule_list", "seen", "verdict"]

_STATUS_STYLE = {"right": "green", "refused": "yellow", "wrong": "bold red", "not tried": "dim"}


def render(report: Report, width: int | None = None, colour: bool = False) -> str:
    """The whole report as text, `width` columns wide, by default as wide as the terminal (60 to 120)."""
    return _print(renderable(report), width, colour)


def renderable(report: Report) -> RenderableType:
    """The whole report for `rich`."""
    return Group(*_blocks(report))


def failure_text(report: Report) -> str:
    """The verdict and the findings alone."""
    return _print(Group(verdict_line(report), *_findings(report.findings)))


def verdict(report: Report) -> str:
    """The first line of a report."""
    place = clean(report.subject.get("file") or "")
    if place and report.subject.get("line"):
        place += f":{report.subject['line']}"
    name = clean(report.name) + (f" ({place})" if place else "")
    if report.ok:
        return f"Nothing wrong found in {name}"
    return f"{count(len(report.findings), 'finding')} in {name}"


def verdict_line(report: Report) -> Text:
    """The first line of a report, coloured."""
    return Text(verdict(report), style="bold green" if report.ok else "bold red")


def facts(report: Report) -> Iterator[tuple[str, str]]:
    """What was judged, and how: label and text."""
    subject = report.subject
    if kind := subject.get("kind"):
        yield "kind", clean(kind)
    if inputs := subject.get("inputs"):
        yield "inputs", ", ".join(tensor(described) for described in inputs)
    if arguments := subject.get("arguments"):
        yield "arguments", ", ".join(f"{clean(name)}={clean(value)}" for name, value in arguments.items())
    if reference := subject.get("reference"):
        yield "reference", clean(reference)
    run = [f"torch {clean(subject['torch'])}"] if subject.get("torch") else []
    run += [f"on {clean(subject['device'])}"] if subject.get("device") else []
    run += [f"seed {clean(subject['seed'])}"] if subject.get("seed") is not None else []
    run += [f"{report.seconds:.1f} s"] if report.seconds else []
    if run:
        yield "run", ", ".join(run)
    if printed := report.noise.get("printed"):
        yield "printed", f"the checked code printed {count(printed, 'line')}"
    if warned := report.noise.get("warnings"):
        yield "warned", clean("; ".join(str(text) for text in warned))


def seen(finding: Finding) -> str:
    """On which inputs and how a finding was seen; empty for the plain case."""
    words = [f"inputs: {clean(finding.sample)}"] if finding.sample not in ("as given", "") else []
    words += [clean(finding.condition)] if finding.condition not in ("eager", "") else []
    words += [f"{finding.count} times"] if finding.count > 1 else []
    return "; ".join(words)


def rule_list(rules: Iterable[Rule], colour: bool = False) -> str:
    """All rules by family: code, name, summary."""
    listed = list(rules)
    blocks: list[RenderableType] = []
    for family, name in FAMILIES.items():
        of_family = [rule for rule in listed if rule.code.startswith(family)]
        if not of_family:
            continue
        table = _table(2)
        for rule in of_family:
            words = Text(clean(rule.name), style="bold").append(f"\n{clean(rule.summary)}", style="not bold")
            table.add_row(Text(rule.code), words)
        blocks += [Text(""), Text(f"{family}  {name}", style="bold"), _indented(table)]
    return _print(Group(*blocks[1:]), colour=colour)


def markdown(page: str) -> str:
    """A page of Markdown as a terminal shows it."""
    from rich.markdown import Markdown

    return _print(Markdown(page, code_theme="ansi_dark"), colour=True)


# --- blocks ------------------------------------------------------------------------------------------


def _blocks(report: Report) -> Iterator[RenderableType]:
    yield verdict_line(report)
    yield from _findings(report.findings)
    if report.notes:
        yield _heading("Notes")
        yield from _findings(report.notes, first=False)
    yield _heading("Transforms")
    table = _table(3)
    for row in report.matrix:
        status = Text(row.status, style=_STATUS_STYLE[row.status])
        table.add_row(Text(clean(row.transform)), status, Text(clean(row.detail)))
    yield _indented(table)
    yield _heading("Checked")
    checked = _table(2)
    for label, text in facts(report):
        checked.add_row(Text(label, style="dim"), Text(text))
    for record in report.tried:
        checked.add_row(Text(_times(record["count"]), style="dim"), Text(clean(record["what"])))
    if not checked.row_count:
        checked.add_row(Text("nothing"), Text(""))
    yield _indented(checked)
    if report.skipped:
        yield _heading("Skipped")
        for record in report.skipped:
            words = f"{clean(record.get('what', ''))}: {clean(record.get('why', ''))}"
            yield _paragraph(words, indent=2, hanging=2)
    if codes := sorted({finding.rule for finding in (*report.findings, *report.notes)}):
        yield Text("")
        yield Text(f"gradsmith explain {clean(codes[0])} tells more about a rule.", style="dim")


def _findings(findings: Iterable[Finding], first: bool = True) -> Iterator[RenderableType]:
    for finding in findings:
        if first:
            yield Text("")
        first = True
        yield from _finding(finding)


def _finding(finding: Finding) -> Iterator[RenderableType]:
    title = Text(clean(finding.rule), style="bold yellow" if finding.note else "bold red")
    if family := FAMILIES.get(finding.rule[:3]):
        title.append(f"  {family}", style="dim")
    yield title
    yield _paragraph(finding.message, indent=2, style="bold")
    for line in finding.evidence:
        yield _paragraph(line, indent=4, hanging=2)
    table = _table(2)
    labelled = {"where": finding.where, "seen": seen(finding), "diagnosis": finding.diagnosis, "mend": finding.hint}
    for label, text in labelled.items():
        if text:
            table.add_row(Text(label, style="cyan"), Text(clean(text)))
    if table.row_count:
        yield _indented(table)


def _heading(text: str) -> RenderableType:
    return Group(Text(""), Text(text, style="bold"))


def _paragraph(text: str, indent: int, hanging: int = 0, style: str = "") -> RenderableType:
    """Text that starts `indent` columns in; the lines it is wrapped to start `hanging` columns further in."""
    lines = clean(text).splitlines() or [""]
    return Group(*(_Hanging(Text(line, style=style, overflow="fold"), indent, hanging) for line in lines))


class _Hanging:
    """A wrapped line."""

    def __init__(self, text: Text, indent: int, hanging: int) -> None:
        self.text, self.indent, self.hanging = text, indent, hanging

    def __rich_console__(self, console: Console, options: object) -> Iterator[RenderableType]:
        width = max(20, console.width - self.indent - self.hanging)
        for place, line in enumerate(self.text.wrap(console, width)):
            yield Padding(line, (0, 0, 0, self.indent + (self.hanging if place else 0)))


def _table(columns: int) -> Table:
    """A table without lines, whose last column takes what the others leave, and wraps."""
    table = Table.grid(padding=(0, 2, 0, 0), expand=True)
    table.add_column(no_wrap=columns == 2, overflow="fold", min_width=9, max_width=30)
    if columns == 3:
        table.add_column(no_wrap=True)
    table.add_column(overflow="fold", ratio=1)
    return table


def _indented(what: RenderableType) -> RenderableType:
    return Padding(what, (0, 0, 0, 2))


def _times(times: int) -> str:
    return f"{times} x"


def _print(what: RenderableType, width: int | None = None, colour: bool = False) -> str:
    width = width or min(120, shutil.get_terminal_size((100, 24)).columns)
    out = io.StringIO()
    console = Console(
        file=out,
        width=max(60, width),
        force_terminal=colour,
        color_system="standard" if colour else None,
        legacy_windows=False,
        highlight=False,
        markup=False,
        emoji=False,
    )
    console.print(what)
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines())
