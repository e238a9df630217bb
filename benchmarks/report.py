"""The same tables three ways: drawn for a terminal, as Markdown for the documentation, as JSON for a program."""

from __future__ import annotations

import dataclasses
import json
import os
import sys
from collections.abc import Sequence

import torch
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table as RichTable
from tables import Figures, Grid, Row

__all__ = ["as_json", "as_markdown", "draw", "environment"]

AnyTable = Figures | Grid
STYLES = {"met": "green", "at the edge": "yellow", "not met": "red", "WRONG": "red", "error": "yellow"}
FIGURE_HEADS = ["what is compared", "gradsmith", "the other", "ratio", "by rounds", "target", "verdict"]
HOW = (
    "Every ratio is measured side by side in one process, candidates taking turns. `ratio` compares the shortest "
    "times, `by rounds` is the median of the ratios within each round. Below 1, gradsmith takes less time. A target is "
    "met when both are within it, at the edge when one is. Where other processes use the cores, threads wait for "
    "each other most of the time: OMP_NUM_THREADS=1 then gives steadier figures."
)


def environment() -> str:
    """What the figures depend on, read here and now."""
    return (
        f"PyTorch {torch.__version__}, Python {sys.version.split()[0]}, cores: {os.cpu_count()}, "
        f"threads used: {torch.get_num_threads()}"
    )


def draw(table: AnyTable, console: Console) -> None:
    heads, lines = _text(table)
    drawn = RichTable(title=table.title, title_justify="left", title_style="bold", box=box.SIMPLE)
    for i, head in enumerate(heads):
        drawn.add_column(
            escape(head), justify="left" if i == 0 or isinstance(table, Grid) else "right", overflow="fold"
        )
    for line in lines:
        drawn.add_row(*[_styled(cell) for cell in line])
    console.print(drawn)
    for note in table.notes:
        console.print(f"  {escape(note)}", style="dim", highlight=False)
    console.print()


def _styled(cell: str) -> str:
    style = STYLES.get(cell)
    return f"[{style}]{escape(cell)}[/{style}]" if style else escape(cell)


def as_json(tables: Sequence[AnyTable]) -> str:
    return json.dumps({"environment": environment(), "tables": [dataclasses.asdict(t) for t in tables]}, indent=2)


def as_markdown(tables: Sequence[AnyTable]) -> str:
    parts = [
        "# Benchmarks",
        "Written by `python benchmarks/run.py --docs`; run it, or `make bench`, for the figures of another machine. "
        f"These are from {environment()}.",
        HOW,
    ]
    for table in tables:
        heads, lines = _text(table)
        rows = ["| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in [heads, *lines]]
        rows.insert(1, "|---" * len(heads) + "|")
        parts += [f"## {table.title}", "\n".join(rows), *table.notes]
    return "\n\n".join(parts) + "\n"


def _text(table: AnyTable) -> tuple[list[str], list[list[str]]]:
    if isinstance(table, Grid):
        return list(table.heads), [list(line) for line in table.lines]
    return FIGURE_HEADS, [_cells(row) for row in table.rows]


def _cells(row: Row) -> list[str]:
    ratios = ["" if r is None else f"{r:.2f}x" for r in (row.ratio, row.ratio_of_rounds)]
    return [row.what, row.ours, row.other, *ratios, row.target, row.verdict]
