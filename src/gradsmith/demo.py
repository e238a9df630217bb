"""What ``gradsmith demo`` computes and draws.

Each seed function runs twice, as the exercise form (`gradsmith.learn.seeds`) and as the library operation, in
float64 so that a typed 0.1 is shown as 0.1. The results are plain lists, compared before anything is shown.
"""

import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TextIO

import torch
from rich.console import Console
from rich.table import Table
from rich.text import Text

import gradsmith
from gradsmith.learn.seeds import GradientScale, SplitAndScale

__all__ = ["DisagreementError", "GradientScaleResult", "SplitAndScaleResult", "draw", "run", "summary"]

_SPLIT_INPUT = (-3.0, -1.0, 0.0, 2.0, 4.0)
_SCALE_INPUT = (1.0, 2.0, 3.0, 4.0)
_ROWS_SHOWN = 10
_BAR_HALF = 6  # characters on each side of a bar's axis


class DisagreementError(Exception):
    """The exercise form and the library operation gave different numbers."""


@dataclass(frozen=True)
class SplitAndScaleResult:
    """Input, both outputs and the gradient of x when both outputs are summed."""

    x: list[float]
    positive: list[float]
    negative: list[float]
    grad: list[float]


@dataclass(frozen=True)
class GradientScaleResult:
    """Input, first scale, and the gradients of x under that scale and under the reversal."""

    x: list[float]
    scale: float
    grad_half: list[float]
    grad_reverse: list[float]


def run(values: Sequence[float] | None, scale: float) -> tuple[SplitAndScaleResult, GradientScaleResult]:
    """Run both seed functions in both forms on `values`, or on their own default inputs.

    Raises:
        DisagreementError: the two forms of a function gave different numbers.
    """
    split_input = list(values or _SPLIT_INPUT)
    split = _split_by_exercise(split_input)
    _compare("split-and-scale", split, _split_by_library(split_input))

    scale_input = list(values or _SCALE_INPUT)
    scaled = _scale_by_exercise(scale_input, scale)
    _compare("gradient-scale", scaled, _scale_by_library(scale_input, scale))
    return split, scaled


def summary(split: SplitAndScaleResult, scaled: GradientScaleResult) -> dict[str, dict[str, list[float]]]:
    """The object that ``gradsmith demo --json`` prints."""
    return {
        "split-and-scale": {"positive": split.positive, "negative": split.negative, "grad": split.grad},
        "gradient-scale": {"grad_half": scaled.grad_half, "grad_reverse": scaled.grad_reverse},
    }


# --- computing ---------------------------------------------------------------------------------------


def _leaf(values: list[float]) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64, requires_grad=True)


def _gradient_of_sum(x: torch.Tensor, *outputs: torch.Tensor) -> list[float]:
    """The gradient of x when every element of every output receives an incoming gradient of 1."""
    (grad,) = torch.autograd.grad([output.sum() for output in outputs], x)
    return _numbers(grad)


def _numbers(tensor: torch.Tensor) -> list[float]:
    numbers: list[float] = tensor.tolist()
    return numbers


def _split_by_exercise(values: list[float]) -> SplitAndScaleResult:
    x = _leaf(values)
    positive, negative = SplitAndScale.apply(x)
    return SplitAndScaleResult(values, _numbers(positive), _numbers(negative), _gradient_of_sum(x, positive, negative))


def _split_by_library(values: list[float]) -> SplitAndScaleResult:
    x = _leaf(values)
    positive, negative = gradsmith.split_and_scale(x)
    return SplitAndScaleResult(values, _numbers(positive), _numbers(negative), _gradient_of_sum(x, positive, negative))


def _scale_by_exercise(values: list[float], scale: float) -> GradientScaleResult:
    x = _leaf(values)
    half = _gradient_of_sum(x, GradientScale.apply(x, scale))
    reverse = _gradient_of_sum(x, GradientScale.apply(x, -1.0))
    return GradientScaleResult(values, scale, half, reverse)


def _scale_by_library(values: list[float], scale: float) -> GradientScaleResult:
    x = _leaf(values)
    half = _gradient_of_sum(x, gradsmith.scale_gradient(x, scale))
    reverse = _gradient_of_sum(x, gradsmith.reverse_gradient(x))
    return GradientScaleResult(values, scale, half, reverse)


def _compare(
    part: str,
    exercise: SplitAndScaleResult | GradientScaleResult,
    library: SplitAndScaleResult | GradientScaleResult,
) -> None:
    """Raise unless both hold the same numbers; exact, since both forms multiply once by the same number."""
    others = asdict(library)
    for field, ours in asdict(exercise).items():
        theirs = others[field]
        if ours == theirs:
            continue
        if len(ours) != len(theirs):
            detail = f"{len(ours)} numbers by the exercise form, {len(theirs)} by the library operation"
        else:
            place = next(i for i, (a, b) in enumerate(zip(ours, theirs, strict=True)) if a != b)
            detail = (
                f"at x = {_format(exercise.x[place])} (item {place + 1}) the exercise form gives "
                f"{_format(ours[place])}, the library operation {_format(theirs[place])}"
            )
        raise DisagreementError(f"the two forms of {part} disagree in {field}: {detail}")


# --- drawing -----------------------------------------------------------------------------------------


def draw(split: SplitAndScaleResult, scaled: GradientScaleResult, stream: TextIO) -> None:
    """Draw both results as tables with bars: plain text unless `stream` is a terminal that takes colour."""
    plain = not stream.isatty() or bool(os.environ.get("NO_COLOR"))
    console = Console(file=stream, color_system=None if plain else "auto", highlight=False, markup=False, emoji=False)
    ones = [1.0] * len(split.x)
    console.print("split-and-scale", style="bold")
    console.print("  forward   positive = max(x, 0) * 2")
    console.print("            negative = min(x, 0) * -1")
    console.print("  backward  2 * g where x > 0,  -g where x < 0,  0 at x = 0")
    _draw_table(
        console,
        _Column("x", split.x),
        _Column("positive", split.positive),
        _Column("negative", split.negative),
        _Column("grad in", ones),
        _Column("grad out", split.grad, peak=_peak(split.grad)),
    )
    console.print(f"  exercise form and library operation agree on {_count(len(split.x))}\n")

    ones = [1.0] * len(scaled.x)
    peak = _peak(scaled.grad_half)
    console.print("gradient-scale", style="bold")
    console.print("  forward   y = x")
    console.print("  backward  scale * g;  a negative scale reverses g")
    _draw_table(
        console,
        _Column("x", scaled.x),
        _Column("grad in", ones),
        _Column(f"* {_format(scaled.scale)}", scaled.grad_half, peak),
        _Column("* -1", scaled.grad_reverse, peak),
    )
    console.print(f"  exercise form and library operation agree on {_count(len(scaled.x))}")


@dataclass(frozen=True)
class _Column:
    """A column of numbers. With a peak, each has a bar beside it, full where the number reaches the peak."""

    name: str
    values: list[float]
    peak: float | None = None


def _draw_table(console: Console, *columns: _Column) -> None:
    """One row for each element, the first few of them when there are many."""
    block = "█" if console.encoding.lower().startswith("utf") else "#"
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    cells: list[list[str | Text]] = []
    for column in columns:
        table.add_column(column.name, justify="right", overflow="fold")
        cells.append([_format(value) for value in column.values[:_ROWS_SHOWN]])
        if column.peak is not None:
            table.add_column(_axis_header(), no_wrap=True)
            cells.append([_bar(value, column.peak, block) for value in column.values[:_ROWS_SHOWN]])
    for row in zip(*cells, strict=True):
        table.add_row(*row)
    console.print(table)
    hidden = len(columns[0].values) - _ROWS_SHOWN
    if hidden > 0:
        console.print(f"  ... {hidden} more (--json prints all)")


def _axis_header() -> str:
    return "-".ljust(_BAR_HALF) + "0" + "+".rjust(_BAR_HALF)


def _peak(grad: list[float]) -> float:
    """The largest magnitude among outgoing gradients and the incoming 1: what a full bar stands for."""
    return max(1.0, *map(abs, grad))


def _bar(value: float, peak: float, block: str) -> Text:
    """A bar to the left of the axis for a negative value, to the right for a positive one."""
    length = round(_BAR_HALF * abs(value) / peak)
    if value and not length:
        length = 1  # small is not nothing
    left = block * length if value < 0 else ""
    right = block * length if value > 0 else ""
    bar = Text(left.rjust(_BAR_HALF), style="red")
    bar.append("|", style="default")
    bar.append(right.ljust(_BAR_HALF), style="green")
    return bar


def _format(value: float) -> str:
    """The shortest text that reads back as the same number, without a trailing ``.0``."""
    return repr(value).removesuffix(".0")


def _count(items: int) -> str:
    return "the one value" if items == 1 else f"all {items} values"
