"""The report as HTML: one page that needs nothing else, or a piece for a notebook cell. No scripts, no addresses."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from html import escape
from typing import TYPE_CHECKING, Any

from gradsmith.check._finding import FAMILIES, Finding
from gradsmith.check.report._plain import clean, number, tensor
from gradsmith.check.report._style import PAGE, STYLE
from gradsmith.check.report._svg import curve, heat_maps
from gradsmith.check.report._text import facts, seen, verdict

if TYPE_CHECKING:
    from gradsmith.check.report._report import Report

__all__ = ["document", "fragment"]

_MOST_NUMBERS = 4096  # of a picture, in the table below it


def document(report: Report) -> str:
    """A whole page."""
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n"
        f"<title>{_text(verdict(report))}</title>\n<style>\n{STYLE}\n{PAGE}\n</style>\n</head>\n<body>\n"
        f"{_body(report, 'main')}\n</body>\n</html>\n"
    )


def fragment(report: Report) -> str:
    """The same for a cell of a notebook: its style reaches nothing outside it."""
    return f'<div class="gradsmith-cell"><style>\n{STYLE}\n</style>\n{_body(report, "div")}\n</div>'


def _body(report: Report, tag: str) -> str:
    return f'<{tag} class="gradsmith-report">\n' + "\n".join(_sections(report)) + f"\n</{tag}>"


def _sections(report: Report) -> Iterator[str]:
    yield f'<h1 class="{"gs-right" if report.ok else "gs-wrong"}">{_text(verdict(report))}</h1>'
    if report.findings:
        yield "<h2>Findings</h2>"
        yield from map(_finding, report.findings)
    if report.notes:
        yield "<h2>Notes</h2>"
        yield from map(_finding, report.notes)
    yield "<h2>Transforms</h2>"
    yield _table(
        ("transform", "verdict", "detail"),
        ((_text(r.transform), _status(r.status), _text(r.detail)) for r in report.matrix),
    )
    pictures = [_picture(picture) for picture in report.pictures]
    if any(pictures):
        yield "<h2>Pictures</h2>"
        yield from filter(None, pictures)
    yield "<h2>Checked</h2>"
    yield _list(facts(report))
    if report.tried:
        yield _table(("what", "times"), ((_text(r["what"]), _text(r["count"])) for r in report.tried))
    if report.samples:
        yield "<h2>Inputs tried</h2>"
        yield _table(("sample", "inputs", "used"), map(_sample, report.samples))
    if report.skipped:
        yield "<h2>Skipped</h2>"
        rows = ((_text(r.get("what", "")), _text(r.get("why", ""))) for r in report.skipped)
        yield _table(("what", "why"), rows)


def _finding(finding: Finding) -> str:
    family = FAMILIES.get(finding.rule[:3], "")
    lines = [
        f'<article class="{"gs-note" if finding.note else "gs-finding"}">',
        f'<h3>{_text(finding.rule)} <span class="gs-faint">{_text(family)}</span></h3>',
        f"<p><strong>{_text(finding.message)}</strong></p>",
    ]
    if finding.evidence:
        lines.append("<pre>" + "\n".join(map(_text, finding.evidence)) + "</pre>")
    labelled = {"where": finding.where, "seen": seen(finding), "diagnosis": finding.diagnosis, "mend": finding.hint}
    lines.append(_list(labelled.items()))
    lines.append("</article>")
    return "\n".join(filter(None, lines))


def _sample(sample: dict[str, Any]) -> tuple[str, str, str]:
    inputs = "<br>".join(_text(tensor(described)) for described in sample.get("inputs") or [])
    used = "yes" if sample.get("used", True) else "no"
    if why := sample.get("why"):
        used += f": {why}"
    return _text(sample.get("name", "")), inputs, _text(used)


# --- pictures ----------------------------------------------------------------------------------------


def _picture(picture: dict[str, Any]) -> str:
    output, given = (f"<code>{_text(picture.get(side, side))}</code>" for side in ("output", "input"))
    if picture.get("kind") == "curve":
        words, drawn = curve(picture)
        columns = [picture.get(name) or [] for name in ("x", "forward", "gradient", "slope")]
        numbers = _numbers(("x", "forward", "your gradient", "numeric slope"), zip(*columns, strict=False))
        caption = f"{output} along a line through {given}. {_text(words)}"
        return f'<figure><figcaption>{caption}</figcaption><div class="gs-scroll">{drawn}</div>{numbers}</figure>'
    if picture.get("kind") == "jacobian":
        maps = "".join(
            f"<figure><figcaption>{name}: {_text(words)}</figcaption>{drawn}</figure>"
            for name, words, drawn in heat_maps(picture)
        )
        sides = zip(picture.get("got") or [], picture.get("expected") or [], strict=False)
        rows = (
            (i, j, yours, reference)
            for i, pair in enumerate(sides)
            for j, (yours, reference) in enumerate(zip(*pair, strict=False))
        )
        numbers = _numbers(("output element", "input element", "yours", "reference"), rows)
        caption = (
            f"Jacobian of {output} by {given}: a row for each element of the output, a column for each of the input; "
            "orange is positive, blue negative, stronger is larger."
        )
        return f'<figure><figcaption>{caption}</figcaption><div class="gs-maps">{maps}</div>{numbers}</figure>'
    return ""


def _numbers(head: tuple[str, ...], rows: Iterable[tuple[Any, ...]]) -> str:
    """The numbers of a picture, folded away."""
    listed = [tuple(_text(number(value)) for value in row) for row in rows]
    more = len(listed) - _MOST_NUMBERS
    rest = f'<p class="gs-faint">{more} more are not listed.</p>' if more > 0 else ""
    return f"<details><summary>the numbers</summary>{_table(head, listed[:_MOST_NUMBERS])}{rest}</details>"


# --- pieces ------------------------------------------------------------------------------------------


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    """A table of what is HTML already; the first cell of a row names it."""
    top = "".join(f'<th scope="col">{cell}</th>' for cell in head)
    body = "\n".join(
        f'<tr><th scope="row">{first}</th>' + "".join(f"<td>{cell}</td>" for cell in rest) + "</tr>"
        for first, *rest in rows
    )
    return f'<div class="gs-scroll"><table><thead><tr>{top}</tr></thead><tbody>\n{body}\n</tbody></table></div>'


def _list(pairs: Iterable[tuple[str, str]]) -> str:
    items = "".join(f"<dt>{_text(label)}</dt><dd>{_text(text)}</dd>" for label, text in pairs if text)
    return f"<dl>{items}</dl>" if items else ""


def _status(status: str) -> str:
    return f'<span class="gs-{status.replace(" ", "-")}">{_text(status)}</span>'


def _text(value: object) -> str:
    return escape(clean(value))
