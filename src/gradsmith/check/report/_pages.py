"""The page of each rule, and the folder of them: ``python -m gradsmith.check.report._pages`` writes ``docs/rules``."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

from gradsmith.check._finding import FAMILIES, Rule

__all__ = ["index", "page", "pages", "write_pages"]

_FOLDER = Path(__file__).parents[4] / "docs" / "rules"


def page(rule: Rule) -> str:
    """What ``gradsmith explain`` prints, in Markdown."""
    return "\n\n".join(
        [
            f"# {rule.code} {rule.name}",
            rule.summary.strip(),
            f"Family {rule.code[:3]}: {rule.family}.",
            f"## Why it matters\n\n{rule.why.strip()}",
            f"## Bad\n\n{_fenced(rule.bad)}",
            f"## Good\n\n{_fenced(rule.good)}",
            f"## How to mend it\n\n{rule.mend.strip()}\n",
        ]
    )


def index(rules: Iterable[Rule]) -> str:
    """The table of all rules by family, in Markdown, with a link to the page of each."""
    lines = [
        "# Rules",
        "",
        "What `gradsmith check` looks for. The first digit of a code is the family. `gradsmith explain GS101` prints a "
        "page, and `--select` and `--ignore` take codes or their beginnings.",
    ]
    listed = sorted(rules, key=lambda rule: rule.code)
    for family, name in FAMILIES.items():
        of_family = [rule for rule in listed if rule.code.startswith(family)]
        if not of_family:
            continue
        lines += ["", f"## {family}: {name}", "", "| Code | Name | What it finds |", "|---|---|---|"]
        lines += [f"| [{r.code}]({r.code}.md) | {_cell(r.name)} | {_cell(r.summary)} |" for r in of_family]
    return "\n".join(lines) + "\n"


def pages(rules: Iterable[Rule]) -> dict[str, str]:
    """File name and text of every page, the index among them."""
    listed = list(rules)
    return {"README.md": index(listed), **{f"{rule.code}.md": page(rule) for rule in listed}}


def write_pages(folder: str | Path, rules: Iterable[Rule] | None = None) -> None:
    """Write the pages of `rules`, by default of all, into `folder`; pages of rules that are gone are removed."""
    if rules is None:
        from gradsmith.check.rules import RULES

        rules = RULES
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    written = pages(rules)
    for old in folder.glob("GS*.md"):
        if old.name not in written:
            old.unlink()
    for name, text in written.items():
        (folder / name).write_text(text, encoding="utf-8", newline="\n")


def _fenced(source: str) -> str:
    fence = "```"
    while fence in source:
        fence += "`"
    return f"{fence}python\n{source.strip()}\n{fence}"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


if __name__ == "__main__":
    write_pages(sys.argv[1] if len(sys.argv) > 1 else _FOLDER)
