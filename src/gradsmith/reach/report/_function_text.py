"""One function as text: what was found, on which inputs, how to pin them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from gradsmith.check.report._plain import clean
from gradsmith.check.report._text import _finding, _paragraph, _print
from gradsmith.reach._verdict import Verdict
from gradsmith.reach.report._places import Places
from gradsmith.reach.report._summary import BROKEN, finding_of

__all__ = ["Block", "Verbatim", "blocks_of", "paste", "printed", "verdict_text"]

CASES_FILE = "gradsmith_cases.py"


@dataclass(frozen=True)
class Verbatim:
    """Lines that must stay as they are, however long: they are there to be pasted."""

    text: str


Block = RenderableType | Verbatim


def verdict_text(verdict: Verdict, places: Places | None = None) -> str:
    """What is to be said of one function, as plain text without its name."""
    return printed(_inside(verdict, places), width=100).rstrip("\n")


def blocks_of(verdict: Verdict, places: Places) -> Iterator[Block]:
    """The same below a heading with the name."""
    heading = Text(clean(verdict.found.id), style="bold", overflow="fold")
    if place := places.of(verdict.found):
        heading.append(f"  {place}", style="dim")
    yield Text("")
    yield heading
    yield from _inside(verdict, places)


def _inside(verdict: Verdict, places: Places | None) -> Iterator[Block]:
    def short(text: str) -> str:
        return places.short(text) if places else text

    if verdict.why:
        style = "bold red" if verdict.kind in BROKEN else ""
        yield _paragraph(f"{verdict.kind}: {short(verdict.why)}", indent=2, hanging=2, style=style)
    if verdict.call:
        how = "under guessed inputs" if verdict.guessed else "called"
        source = f" ({verdict.source}{' ' + short(verdict.source_where) if verdict.source_where else ''})"
        yield _paragraph(f"{how}{source if verdict.source else ''}: {verdict.call}", indent=2, hanging=2)
    for data in verdict.open:
        finding = finding_of(data)
        lines = tuple(map(short, finding.evidence))
        shown = replace(finding, evidence=lines, message=short(finding.message), where=short(finding.where))
        yield Padding(Group(*_finding(shown)), (0, 0, 0, 2))
    if verdict.pin and (verdict.guessed or verdict.kind in BROKEN):
        yield from paste("to pin these inputs", verdict.pin)


def paste(why: str, lines: str) -> Iterator[Block]:
    """Lines for the file of cases."""
    yield _paragraph(f"{why}, put this in {CASES_FILE}, below `import torch, gradsmith as gs`:", indent=2, hanging=2)
    yield Verbatim("\n".join(f"    {line}".rstrip() for line in clean(lines).strip("\n").splitlines()))


def printed(blocks: Iterable[Block], width: int | None = None, colour: bool = False) -> str:
    """The blocks as text; each ends its line."""
    parts: list[str] = []
    waiting: list[RenderableType] = []
    for block in blocks:
        if isinstance(block, Verbatim):
            parts += [_print(Group(*waiting), width, colour)] if waiting else []
            waiting.clear()
            parts.append(block.text)
        else:
            waiting.append(block)
    parts += [_print(Group(*waiting), width, colour)] if waiting else []
    return "\n".join(parts)
