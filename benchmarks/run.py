"""`make bench`: what gradsmith costs, next to what it replaces.

Nothing here passes or fails: the figures depend on the machine, the ratios less so, and a verdict is only printed.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path

import click
import compare
import large
import peers
import report
from growth import growth
from rich.console import Console
from small import one_element
from tables import Figures, Grid
from timing import Effort

DOCS = Path(__file__).parent.parent / "docs" / "benchmarks.md"
PIPED_WIDTH = 150  # a file has no width; the widest table needs this much


@click.command()
@click.option("--quick", is_flag=True, help="A short run, with less steady figures.")
@click.option("--json", "json_file", type=click.Path(dir_okay=False, path_type=Path), help="Write the figures there.")
@click.option("--docs", is_flag=True, help="Write the figures to docs/benchmarks.md.")
def main(quick: bool, json_file: Path | None, docs: bool) -> None:
    """Time gradsmith against hand-written Functions, the memory's speed and other packages."""
    warnings.filterwarnings("ignore", message="Failed to initialize NumPy")  # nothing here needs it
    console = Console()
    if not console.is_terminal:
        console = Console(width=PIPED_WIDTH)
    console.print(report.environment(), highlight=False)
    console.print(f"{report.HOW}\n", highlight=False)
    tables = []
    for table in _tables(quick):
        tables.append(table)
        report.draw(table, console)
    if json_file:
        json_file.write_text(report.as_json(tables) + "\n", encoding="utf-8")
    if docs:
        DOCS.parent.mkdir(exist_ok=True)
        DOCS.write_text(report.as_markdown(tables), encoding="utf-8")


def _tables(quick: bool) -> Iterator[Figures | Grid]:
    """One after another, so that each is shown as soon as it is measured."""
    short, long = (Effort(30, 1), Effort(5, 6)) if quick else (Effort(300, 5), Effort(25, 30))
    yield one_element(short)
    yield large.scaling(long)
    yield large.splitting(long)
    yield growth(Effort(long.rounds, long.seconds / 4))
    found, missing = peers.installed()
    yield compare.costs(found, missing, short, Effort(long.rounds, long.seconds / 4))
    yield compare.survival(found)


if __name__ == "__main__":
    main()
