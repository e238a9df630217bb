"""The report as one HTML page that needs nothing else: no scripts, no addresses."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from gradsmith.check._finding import FAMILIES
from gradsmith.check.report._html import _finding, _list, _table, _text
from gradsmith.check.report._matrix import TRANSFORMS
from gradsmith.check.report._plain import count
from gradsmith.check.report._style import PAGE, STYLE
from gradsmith.reach._verdict import Verdict
from gradsmith.reach.report._function_text import CASES_FILE
from gradsmith.reach.report._places import Places
from gradsmith.reach.report._summary import BROKEN, STANDINGS, PackageReport, finding_of, grouped, letter, standing
from gradsmith.reach.report._summary import title as title_of

__all__ = ["html_page"]

_COLOUR = {"right": "right", "wrong": "wrong", "known": "refused", **dict.fromkeys(BROKEN, "wrong")}
_MORE_STYLE = """
.gradsmith-report { max-width: 76rem; }
.gradsmith-report .gs-tiles { display: flex; flex-wrap: wrap; gap: .6rem; margin: 1rem 0; }
.gradsmith-report .gs-tiles div { border: 1px solid var(--gs-rule); border-radius: 4px; background: var(--gs-panel);
    padding: .4rem .9rem; }
.gradsmith-report .gs-tiles b { display: block; font-size: 1.3rem; }
.gradsmith-report a { color: var(--gs-other); }
.gradsmith-report thead th { white-space: nowrap; }
.gradsmith-report tbody th { min-width: 12rem; }
.gradsmith-report td:not(:last-child) { white-space: nowrap; }
.gradsmith-report .gs-matrix th[scope=col] { writing-mode: sideways-lr; padding: .3rem .15rem; }
.gradsmith-report .gs-matrix th[scope=col]:first-child { writing-mode: horizontal-tb; vertical-align: bottom; }
.gradsmith-report .gs-matrix td { text-align: center; padding: .25rem .6rem; font-family: ui-monospace, monospace; }
.gradsmith-report section { border-top: 1px solid var(--gs-rule); padding: .8rem 0; }
.gradsmith-report [id] { scroll-margin-top: 3rem; }
.gradsmith-report section > article { margin-left: 0; }
.gradsmith-report article.gs-known { border-left: 4px dashed var(--gs-rule); opacity: .85; }
.gradsmith-report .gs-named { margin: 0 0 .6em 1.5rem; }
.gradsmith-report details > summary { cursor: pointer; }
.gradsmith-report pre.gs-paste { border: 1px solid var(--gs-rule); border-radius: 4px; padding: .5rem .8rem;
    white-space: pre; overflow-x: auto; }
"""


def html_page(report: PackageReport) -> str:
    """A whole page."""
    title = _text(f"{title_of(report.package)}: {report.sentence}")
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n"
        f"<title>{title}</title>\n<style>\n{STYLE}\n{PAGE}\n{_MORE_STYLE}</style>\n</head>\n<body>\n"
        '<main class="gradsmith-report">\n' + "\n".join(_sections(report)) + "\n</main>\n</body>\n</html>\n"
    )


def _sections(report: PackageReport) -> Iterator[str]:
    places = Places(report.package)
    run = [(f"f{place}", verdict) for place, verdict in enumerate(report.verdicts)]
    checked = [(anchor, v) for anchor, v in run if v.kind != "not exercised"]
    loud = [(anchor, v) for anchor, v in checked if v.open or v.kind in BROKEN]
    yield f"<h1>{_text(title_of(report.package))}</h1>"
    yield f'<p class="{"gs-right" if report.ok else "gs-wrong"}">{_text(report.sentence)}</p>'
    yield _tiles(report)
    if checked:
        yield "<h2>Functions</h2>"
        yield _table(("function", "verdict", "inputs", "intent", "findings"), (_row(a, v) for a, v in checked))
    if loud:
        yield "<h2>What is wrong</h2>"
        for anchor, verdict in loud:
            yield _section(anchor, verdict, places)
    yield from _lists(report, places)
    if matrix := [(a, v) for a, v in checked if v.matrix]:
        yield "<h2>Transforms</h2>"
        yield "<p>+ right, - refused with an error, X wrong, . not tried. A cell tells more under the pointer.</p>"
        yield _matrix(matrix)
    rest = [(a, v) for a, v in checked if not (v.open or v.kind in BROKEN)]
    if rest:
        yield "<h2>Nothing wrong found</h2>"
        for anchor, verdict in rest:
            yield _folded(anchor, verdict, places)


def _tiles(report: PackageReport) -> str:
    tiles = [(f"{len(report.exercised)} of {len(report.checkable)}", "exercised")]
    tiles += [(str(n), f"by {source}") for source, n in report.sources.items() if n]
    tiles += [(str(report.counts[kind]), kind) for kind in STANDINGS if report.counts[kind]]
    tiles += [(str(n), f"{family} {FAMILIES.get(family, '')}") for family, n in report.families.items()]
    tiles += [(f"{report.seconds:.0f} s", "taken")]
    inside = "".join(f"<div><b>{_text(number)}</b>{_text(label)}</div>" for number, label in tiles)
    return f'<div class="gs-tiles">{inside}</div>'


def _row(anchor: str, verdict: Verdict) -> tuple[str, ...]:
    word, found = standing(verdict), verdict.found
    codes = dict.fromkeys(f["rule"] for f in verdict.open or verdict.findings)
    return (
        f'<a href="#{anchor}">{_text(found.name)}</a><br><span class="gs-faint">{_text(found.module)}</span>',
        f'<span class="gs-{_COLOUR.get(word, "faint")}">{_text(word)}</span>',
        _text(verdict.source),
        _text(verdict.intent),
        _text(" ".join(codes)),
    )


def _matrix(verdicts: Sequence[tuple[str, Verdict]]) -> str:
    rows = []
    for anchor, verdict in verdicts:
        by_name = {row["transform"]: row for row in verdict.matrix}
        cells = [_cell(by_name.get(name, {"status": "not tried"})) for name in TRANSFORMS]
        rows.append((f'<a href="#{anchor}">{_text(verdict.found.name)}</a>', *cells))
    return _table(("function", *map(_text, TRANSFORMS)), rows).replace("<table>", '<table class="gs-matrix">')


def _cell(row: dict[str, str]) -> str:
    status = row["status"]
    words = _text(": ".join(filter(None, (status, row.get("detail", "")))))
    kind = status.replace(" ", "-")
    return f'<span class="gs-{_text(kind)}" title="{words}" aria-label="{words}">{letter(status)}</span>'


# --- one function ------------------------------------------------------------------------------------


def _section(anchor: str, verdict: Verdict, places: Places) -> str:
    word = standing(verdict)
    head = f'<h3>{_text(verdict.found.id)} <span class="gs-{_COLOUR.get(word, "faint")}">{_text(word)}</span></h3>'
    return f'<section id="{anchor}">\n{head}\n' + "\n".join(_inside(verdict, places)) + "\n</section>"


def _folded(anchor: str, verdict: Verdict, places: Places) -> str:
    codes = " ".join(dict.fromkeys(n["rule"] for n in (*verdict.findings, *verdict.notes)))
    told = ", ".join(filter(None, (standing(verdict), verdict.intent, codes)))
    summary = f'{_text(verdict.found.id)} <span class="gs-faint">{_text(told)}</span>'
    inside = "\n".join(_inside(verdict, places))
    # A link to what stands inside opens it.
    body = f'<div id="{anchor}">\n{inside}\n</div>'
    return f"<section><details><summary>{summary}</summary>\n{body}\n</details></section>"


def _inside(verdict: Verdict, places: Places) -> Iterator[str]:
    how = "under guessed inputs" if verdict.guessed else "called"
    facts = {
        "where": places.of(verdict.found),
        verdict.kind: places.short(verdict.why) if verdict.why else "",
        how: verdict.call,
        "inputs from": " ".join(filter(None, (verdict.source, places.short(verdict.source_where)))),
        "intent": ": ".join(filter(None, (verdict.intent, verdict.intent_why))),
        "seconds": f"{verdict.seconds:.1f}",
    }
    yield _list(facts.items())
    for data in verdict.findings:
        shown = _shown(data, places)
        if why := data.get("suppressed"):
            shown = shown.replace('class="gs-finding"', 'class="gs-known"')
            yield f"<p>{_text('left out, ' + str(why))}</p>\n{shown}"
        else:
            yield shown
    if verdict.pin and (verdict.guessed or verdict.kind in BROKEN):
        yield from _paste("To pin these inputs", verdict.pin)
    if verdict.declaration:
        yield from _paste("To declare the intent", verdict.declaration)
    if verdict.notes:
        notes = "\n".join(_shown(data, places, note=True) for data in verdict.notes)
        yield f"<details><summary>{count(len(verdict.notes), 'note')}</summary>\n{notes}\n</details>"


def _shown(data: dict[str, object], places: Places, note: bool = False) -> str:
    finding = finding_of(data, note)
    lines = tuple(map(places.short, finding.evidence))
    return _finding(
        replace(finding, evidence=lines, message=places.short(finding.message), where=places.short(finding.where))
    )


def _paste(why: str, lines: str) -> Iterator[str]:
    yield f"<p>{_text(why)}, put this in <code>{CASES_FILE}</code>:</p>"
    yield f'<pre class="gs-paste">{_text(lines.strip(chr(10)))}</pre>'


# --- what was not checked ----------------------------------------------------------------------------


def _lists(report: PackageReport, places: Places) -> Iterator[str]:
    left = [(places.short(v.why), v.found.id) for v in report.verdicts if v.kind == "not exercised"]
    unread = [(places.short(u.why), u.module) for u in report.package.unread]
    pending = [("", found.id) for found in report.pending]
    exempt = [(found.why, found.id) for found in report.package.found if found.exempt]
    named = {
        "Not exercised": left,
        "Modules that did not import": unread,
        "Not reached before the interruption": pending,
        "Without a gradient of their own": exempt,
    }
    for name, pairs in named.items():
        if pairs:
            yield f"<h2>{name}: {len(pairs)}</h2>"
            yield from _by_reason(pairs)
    if report.remarks:
        yield (
            "<h2>Remarks</h2><ul>"
            + "".join(f"<li>{_text(places.short(remark))}</li>" for remark in report.remarks)
            + "</ul>"
        )


def _by_reason(pairs: Iterable[tuple[str, str]]) -> Iterator[str]:
    for reason, names in grouped(pairs):
        listed = ", ".join(f"<code>{_text(name)}</code>" for name in names)
        yield f'<p>{_text(reason)}</p><p class="gs-named">{listed}</p>' if reason else f"<p>{listed}</p>"
