"""The style sheet of the HTML report. Every rule is for what stands inside `.gradsmith-report`, so none leaks out."""

from __future__ import annotations

import re

__all__ = ["PAGE", "STYLE"]

_LIGHT = {
    "paper": "#ffffff",
    "ink": "#1b1f24",
    "faint": "#59636e",
    "rule": "#d1d9e0",
    "panel": "#f6f8fa",
    "right": "#116329",
    "refused": "#7d4e00",
    "wrong": "#b3261e",
    "yours": "#b35806",
    "other": "#2166ac",
}
_DARK = {
    "paper": "#14181d",
    "ink": "#e6e9ed",
    "faint": "#9aa4af",
    "rule": "#3a424c",
    "panel": "#1c2229",
    "right": "#6cc788",
    "refused": "#e0b252",
    "wrong": "#ff8f85",
    "yours": "#f0a04b",
    "other": "#74b4ea",
}

_RULES = """
& { background: var(--gs-paper); color: var(--gs-ink); color-scheme: light dark; padding: 1rem;
    font: 15px/1.5 system-ui, sans-serif; text-align: left; max-width: 60rem; overflow-wrap: anywhere; }
h1, h2 { line-height: 1.25; margin: 1.8em 0 .5em; font-weight: 600; color: inherit; }
h1 { font-size: 1.5rem; margin-top: 0; }
h2 { font-size: 1.15rem; }
h3 { font-size: 1rem; margin: 0 0 .3em; font-weight: 600; color: inherit; }
p { margin: .3em 0; }
code, pre { font: .87em/1.5 ui-monospace, monospace; background: none; color: inherit; padding: 0; }
pre { white-space: pre-wrap; margin: .5em 0; }
article { border: 1px solid var(--gs-rule); border-left: 4px solid var(--gs-wrong); border-radius: 4px;
    background: var(--gs-panel); padding: .7rem 1rem; margin: .8rem 0; break-inside: avoid; }
article.gs-note { border-left: 4px dashed var(--gs-refused); }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .15rem 1rem; margin: .5em 0; }
dt { color: var(--gs-faint); font-weight: 400; }
dd { margin: 0; }
.gs-scroll { overflow-x: auto; }
table { border-collapse: collapse; margin: .5em 0; font-size: inherit; border: 0; }
th, td { text-align: left; vertical-align: top; padding: .25rem 1rem .25rem 0; border: 0;
    border-bottom: 1px solid var(--gs-rule); background: none; white-space: normal; }
thead th { color: var(--gs-faint); font-weight: 400; }
tbody th { font-weight: 400; }
.gs-right { color: var(--gs-right); }
.gs-refused { color: var(--gs-refused); }
.gs-wrong { color: var(--gs-wrong); font-weight: 600; }
.gs-not-tried, .gs-faint { color: var(--gs-faint); }
figure { margin: 1rem 0; break-inside: avoid; }
figcaption { margin-bottom: .4rem; }
.gs-maps { display: flex; flex-wrap: wrap; gap: 1rem; }
svg { max-width: 100%; height: auto; display: block; }
svg text { font: 11px system-ui, sans-serif; fill: var(--gs-ink); }
svg .gs-name { font-weight: 600; }
svg .gs-frame { fill: none; stroke: var(--gs-rule); }
svg .gs-grid { stroke: var(--gs-rule); stroke-width: .5; }
svg .gs-zero { stroke: var(--gs-faint); }
svg polyline { fill: none; }
svg .gs-forward { stroke: var(--gs-ink); stroke-width: 2; }
svg .gs-gradient { stroke: var(--gs-yours); stroke-width: 2; }
svg .gs-slope { stroke: var(--gs-other); stroke-width: 4; stroke-dasharray: 2 5; }
svg circle.gs-slope { stroke: none; fill: transparent; }
svg circle.gs-gradient { fill: var(--gs-paper); stroke-width: 1.2; }
svg circle.gs-forward { fill: var(--gs-ink); stroke: none; r: 1.5px; }
svg text.gs-lost { fill: var(--gs-wrong); font-weight: 600; }
svg rect.gs-plus { fill: var(--gs-yours); stroke: var(--gs-rule); }
svg rect.gs-minus { fill: var(--gs-other); stroke: var(--gs-rule); }
svg rect.gs-lost { fill: none; stroke: var(--gs-wrong); stroke-dasharray: 2 2; }
svg rect.gs-mark { stroke: var(--gs-ink); stroke-width: 2; }
svg g text { paint-order: stroke; stroke: var(--gs-paper); stroke-width: 3px; }
"""


def _variables(colours: dict[str, str]) -> str:
    return ".gradsmith-report { " + " ".join(f"--gs-{name}: {value};" for name, value in colours.items()) + " }"


def _scoped(rules: str) -> str:
    """The rules with the class of the report before every selector; & is the report itself."""

    def prefix(rule: re.Match[str]) -> str:
        inside = [selector.strip() for selector in rule[1].split(",")]
        return ", ".join(f".gradsmith-report {one}".removesuffix(" &") for one in inside) + " {" + rule[2] + "}"

    return re.sub(r"([^{}]+)\{([^{}]*)\}", lambda rule: prefix(rule) + "\n", rules.strip())


STYLE = "\n".join(
    [
        _variables(_LIGHT),
        "@media (prefers-color-scheme: dark) { " + _variables(_DARK) + " }",
        "@media print { " + _variables(_LIGHT) + " .gradsmith-report svg { print-color-adjust: exact; } }",
        _scoped(_RULES),
    ]
)
"""For a report anywhere: in a notebook cell, in a page."""

PAGE = "html { background: #ffffff; } body { margin: 0; } .gradsmith-report { margin: 0 auto; }" + (
    " @media (prefers-color-scheme: dark) { html { background: #14181d; } } @media print { html { background: none; } }"
)
"""For the page around it."""
