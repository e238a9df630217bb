"""docs/field-report.md: what the checks of real packages came to, written from their reports."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path

FIELD = Path(__file__).resolve().parent.parent / "docs" / "field"
RAN = ("right", "wrong")

HEAD = """# Field report

What `gradsmith check` says of real packages, on a CPU, with `--fast`. Written by `make field`; the versions are those
of [requirements.txt](field/requirements.txt), beside torch {torch}.

Each package was checked twice: *searched*, with no input written by hand, and *recorded*, on the calls of the few
lines of its public API in [drives](field/drives). A function counts as exercised when its forward and backward ran and
every law was tried on it. Those that need a GPU, a compiler or another package are listed, with the reason, in
[not-on-cpu.toml](field/not-on-cpu.toml), and are not counted.

"""


def _table(file: str) -> dict[str, dict]:
    return tomllib.loads((FIELD / file).read_text())


def write(reports: dict[str, dict], target: Path, torch_version: str) -> None:
    """Write the page."""
    off, confirmed = _table("not-on-cpu.toml"), _table("confirmed.toml")
    rows = [
        Row(package, report, off.get(package, {}), confirmed.get(package, {})) for package, report in reports.items()
    ]
    lines = [HEAD.format(torch=torch_version), *_totals(rows), *_packages(rows), *_findings(rows), *_missed(rows)]
    target.write_text("\n".join(lines).rstrip() + "\n")


class Row:
    """One package: its functions, by id, as each of the two checks saw them."""

    def __init__(self, package: str, report: dict, off: dict[str, str], confirmed: dict[str, dict[str, str]]) -> None:
        self.package, self.confirmed = package, confirmed
        self.version = report["guessed"]["package"].get("version", "")
        self.searched = _by_id(report["guessed"])
        self.recorded = _by_id(report.get("recorded", {"functions": []}))
        self.seconds = report["seconds"]
        everything = {**self.searched, **self.recorded}
        self.off = {i: why for i in everything if (why := _fits(i, off))}
        self.able = [i for i in everything if i not in self.off]

    def ran(self, functions: dict[str, dict]) -> list[str]:
        return [i for i in self.able if i in functions and functions[i]["verdict"] in RAN]

    @property
    def either(self) -> list[str]:
        return [i for i in self.able if i in {*self.ran(self.searched), *self.ran(self.recorded)}]

    @property
    def best(self) -> dict[str, dict]:
        """Of each function the verdict on recorded calls where there is one, else that of the search."""
        told = {i: f for i, f in self.recorded.items() if f["verdict"] in RAN}
        return {**self.searched, **told}

    def findings(self) -> Iterator[tuple[str, str, str]]:
        """Id, rule and message of all that either check found."""
        seen: dict[tuple[str, str], str] = {}
        for functions in (self.recorded, self.searched):
            for name, function in functions.items():
                for finding in function["findings"]:
                    seen.setdefault((name, finding["rule"]), finding["message"])
        yield from ((name, rule, message) for (name, rule), message in sorted(seen.items()))


def _by_id(report: dict) -> dict[str, dict]:
    return {f["id"]: f for f in report["functions"] if f["verdict"] != "exempt"}


def _fits(name: str, table: dict[str, str]) -> str:
    return next((why for pattern, why in table.items() if fnmatchcase(name, pattern)), "")


def _share(part: int, whole: int) -> str:
    return f"{part} of {whole} ({100 * part / whole:.0f} %)" if whole else "0 of 0"


def _totals(rows: list[Row]) -> list[str]:
    able = sum(len(r.able) for r in rows)
    searched = sum(len(r.ran(r.searched)) for r in rows)
    either = sum(len(r.either) for r in rows)
    found = [(r, *f) for r in rows for f in r.findings()]
    shown = [f for f in found if f[0].confirmed.get(f[1], {}).get(f[2])]
    seconds = sum(r.seconds["guessed"] for r in rows)
    total = sum(len(r.able) + len(r.off) for r in rows)
    return [
        f"* {len(rows)} packages, {total} functions, {able} of them can run on a CPU.",
        f"* Exercised without any input written by hand: {_share(searched, able)}.",
        f"* Exercised with a few recorded lines beside it: {_share(either, able)}.",
        f"* Findings: {len(found)} in {len({(f[0].package, f[1]) for f in found})} functions; {len(shown)} of them "
        "confirmed by hand, each by the lines beside it.",
        f"* The searched checks took {seconds / 60:.0f} minutes of one core in all.",
        "",
    ]


def _packages(rows: list[Row]) -> list[str]:
    lines = [
        "## Packages",
        "",
        "| package | functions | run on a CPU | searched | searched or recorded | what they are | findings |",
        "|---|---|---|---|---|---|---|",
    ]
    for r in rows:
        kinds: dict[str, int] = {}
        for name in r.either:
            kind = r.best[name].get("intent") or "not told"
            kinds[kind] = kinds.get(kind, 0) + 1
        told = ", ".join(f"{n} {kind}" for kind, n in sorted(kinds.items(), key=lambda item: -item[1]))
        lines.append(
            f"| {r.package} {r.version} | {len(r.able) + len(r.off)} | {len(r.able)} | {len(r.ran(r.searched))} | "
            f"{len(r.either)} | {told} | {len(list(r.findings()))} |"
        )
    return [*lines, ""]


def _findings(rows: list[Row]) -> list[str]:
    lines = ["## Findings", "", "Each with the lines that show it without gradsmith.", ""]
    lines += ["| package | function | rule | what | shown by |", "|---|---|---|---|---|"]
    for r in rows:
        for name, rule, message in r.findings():
            file = r.confirmed.get(name, {}).get(rule, "")
            link = f"[{file}](field/{file})" if file else "**not confirmed**"
            short = name.rpartition(":")[2].rpartition(".")[2]
            lines.append(
                f"| {r.package} | {short} | [{rule}](rules/{rule}.md) | {message.replace('|', '/')} | {link} |"
            )
    return [*lines, ""]


def _missed(rows: list[Row]) -> list[str]:
    lines = ["## Not exercised", "", "| package | function | why |", "|---|---|---|"]
    for r in rows:
        for name in r.able:
            if name not in r.either:
                function = r.recorded.get(name) or r.searched[name]
                why = (function.get("why") or function["verdict"]).replace("|", "/").replace("\n", " ")
                lines.append(f"| {r.package} | {name.rpartition(':')[2]} | {why[:160]} |")
    return [*lines, ""]
