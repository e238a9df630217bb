"""The pictures of a report as SVG to stand inside HTML: curves along a line, Jacobians as heat maps.

Colours are classes that the page gives a value for light and for dark. Nothing is told by colour alone: lines differ in
dash and marker, numbers stand in the cells or show on hover, and a sentence says what is seen.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from html import escape
from typing import Any

from gradsmith.check.report._plain import clean, count, number

__all__ = ["curve", "heat_maps"]

_WIDTH, _LEFT, _RIGHT, _PANEL, _TOP, _GAP = 560, 70, 16, 150, 26, 52
_MOST_CELLS = 32  # rows and columns of a heat map; of larger ones, the part around the largest difference is shown
_NEAR = 0.02  # differences below this share of the largest value are not seen in a picture

_Points = list[tuple[float, float]]


def curve(picture: dict[str, Any]) -> tuple[str, str]:
    """What is seen, in a sentence, and the picture: the forward value; below it the gradient and the numeric slope."""
    x = _floats(picture.get("x"))
    forward, gradient, slope = (_floats(picture.get(name)) for name in ("forward", "gradient", "slope"))
    words = _curve_words(x, gradient, slope)
    name_in, name_out = clean(picture.get("input", "input")), clean(picture.get("output", "output"))
    title = f"{name_out} along a line through {name_in}: forward value, gradient and numeric slope"
    height = 2 * _PANEL + 2 * _TOP + _GAP
    across = _Axis(x, _LEFT, _WIDTH - _RIGHT)
    parts = [
        *_panel(across, _TOP, name_out, [("gs-forward", "forward", x, forward)]),
        *_panel(
            across,
            2 * _TOP + _PANEL + _GAP / 2,
            "gradient",
            [("gs-slope", "numeric slope", x, slope), ("gs-gradient", "your gradient", x, gradient)],
        ),
    ]
    return words, _svg(_WIDTH, height, title, words, parts)


def heat_maps(picture: dict[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Caption, what is seen, and picture for your Jacobian, the reference and their difference."""
    got, expected = ([_floats(row) for row in picture.get(side) or []] for side in ("got", "expected"))
    difference = [[a - b for a, b in zip(*rows, strict=False)] for rows in zip(got, expected, strict=False)]
    row, column = _largest(difference)
    names = f"d {clean(picture.get('output', 'output'))} / d {clean(picture.get('input', 'input'))}"
    peak = max(_peak(got), _peak(expected))
    own = _peak(difference)
    for caption, cells, largest in (
        ("yours", got, peak),
        ("reference", expected, peak),
        ("difference", difference, own if own > 1e-4 * peak else peak),
    ):
        words = _map_words(caption, cells, (row, column))
        yield caption, words, _heat_map(cells, largest, f"{names}, {caption}", words, (row, column))


# --- curves ------------------------------------------------------------------------------------------


class _Axis:
    """From numbers to places; numbers of any size."""

    def __init__(self, values: Sequence[float], start: float, end: float) -> None:
        finite = [v for v in values if math.isfinite(v)] or [0.0, 1.0]
        low, high = min(finite), max(finite)
        if low == high:
            low, high = low - (abs(low) / 10 or 1), high + (abs(high) / 10 or 1)
        self.low, self.high, self.start, self.end = low, high, start, end

    def __call__(self, value: float) -> float:
        share = (value / 2 - self.low / 2) / ((self.high / 2 - self.low / 2) or 1)  # halves cannot overflow
        return round(self.start + share * (self.end - self.start), 1)

    def ticks(self) -> list[float]:
        """Some round numbers within."""
        span = self.high - self.low
        if not 1e-300 < span < 1e300:
            return [self.low, self.high]
        step: float = 10.0 ** math.floor(math.log10(span / 4))
        step *= next(f for f in (1, 2, 5, 10) if f * step * 5 >= span)
        first, last = math.ceil(self.low / step), math.floor(self.high / step)
        return [i * step for i in range(first, last + 1)] if last - first < 9 else [self.low, self.high]


def _panel(
    across: _Axis, top: float, name: str, lines: list[tuple[str, str, list[float], list[float]]]
) -> Iterator[str]:
    bottom = top + _PANEL
    up = _Axis([v for _, _, _, values in lines for v in values], bottom - 6, top + 6)
    yield f'<rect class="gs-frame" x="{_LEFT}" y="{top}" width="{_WIDTH - _LEFT - _RIGHT}" height="{_PANEL}"/>'
    for tick in across.ticks():
        yield f'<line class="gs-grid" x1="{across(tick)}" x2="{across(tick)}" y1="{top}" y2="{bottom}"/>'
        yield f'<text x="{across(tick)}" y="{bottom + 15}" text-anchor="middle">{number(tick + 0.0)}</text>'
    for tick in up.ticks():
        style = "gs-zero" if tick == 0 else "gs-grid"
        yield f'<line class="{style}" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{up(tick)}" y2="{up(tick)}"/>'
        yield f'<text x="{_LEFT - 6}" y="{up(tick) + 4}" text-anchor="end">{number(tick + 0.0)}</text>'
    yield f'<text class="gs-name" x="{_LEFT}" y="{top - 8}">{escape(_short(name, 34))}</text>'
    for place, (style, label, *_) in enumerate(reversed(lines)):
        right = _WIDTH - _RIGHT - 130 * place
        yield f'<line class="{style}" x1="{right - 120}" x2="{right - 92}" y1="{top - 12}" y2="{top - 12}"/>'
        yield f'<text x="{right - 86}" y="{top - 8}">{label}</text>'
    for style, label, x, y in lines:
        yield from _line(style, label, [(a, b) for a, b in zip(x, y, strict=False)], across, up)


def _line(style: str, label: str, points: _Points, across: _Axis, up: _Axis) -> Iterator[str]:
    """The line, broken where a number is not finite, with points that tell their numbers."""
    for piece in _pieces(points):
        places = " ".join(f"{across(x)},{up(y)}" for x, y in piece)
        yield f'<polyline class="{style}" points="{places}"/>'
    for x, y in points:
        if math.isfinite(x) and math.isfinite(y):
            told = f"{label} at {number(x)}: {number(y)}"
            yield f'<circle class="{style}" cx="{across(x)}" cy="{up(y)}" r="2.5"><title>{told}</title></circle>'
        elif math.isfinite(x):
            told = f"{label} at {number(x)}: {number(y)}"
            yield f'<text class="gs-lost" x="{across(x)}" y="{up.start}"><title>{told}</title>x</text>'


def _pieces(points: _Points) -> Iterator[_Points]:
    piece: _Points = []
    for point in points:
        if all(map(math.isfinite, point)):
            piece.append(point)
        elif piece:
            yield piece
            piece = []
    if piece:
        yield piece


def _curve_words(x: list[float], gradient: list[float], slope: list[float]) -> str:
    known = list(zip(x, gradient, slope, strict=False))
    peak = max((abs(v) for _, g, s in known for v in (g, s) if math.isfinite(v)), default=0.0)
    apart = [point for point in known if not abs(point[1] - point[2]) <= _NEAR * peak]
    if not known:
        return "No points were recorded."
    if not apart:
        return f"The gradient agrees with the slope at {count(len(known), 'point')}."
    at, g, s = max(apart, key=lambda point: _distance(point[1], point[2]))
    return (
        f"The gradient and the slope differ at {len(apart)} of {count(len(known), 'point')}, "
        f"most at {number(at)}: gradient {number(g)}, slope {number(s)}."
    )


# --- heat maps ---------------------------------------------------------------------------------------


def _heat_map(cells: list[list[float]], peak: float, title: str, words: str, around: tuple[int, int]) -> str:
    wide = max(map(len, cells), default=0)
    top, left = _window(len(cells), around[0]), _window(wide, around[1])
    shown = [row[left : left + _MOST_CELLS] for row in cells[top : top + _MOST_CELLS]]
    columns = max(map(len, shown), default=0)
    size = max(9, min(46, 230 // max(columns, 1)))
    parts = []
    for i, row in enumerate(shown):
        for j, value in enumerate(row):
            mark = " gs-mark" if (top + i, left + j) == around else ""
            parts.append(_cell(value, peak, (top + i, left + j), (30 + j * size, 18 + i * size), size, mark))
    parts += [
        f'<text x="{30 + (j + 0.5) * size}" y="12" text-anchor="middle">{left + j}</text>'
        for j in range(0, columns, max(1, -(-columns // 8)))
    ]
    parts += [
        f'<text x="25" y="{18 + (i + 0.5) * size + 4}" text-anchor="end">{top + i}</text>'
        for i in range(0, len(shown), max(1, -(-len(shown) // 8)))
    ]
    return _svg(34 + columns * size, 22 + len(shown) * size, title, words, parts)


def _cell(value: float, peak: float, at: tuple[int, int], place: tuple[float, float], size: int, mark: str) -> str:
    x, y = place
    told = f"<title>output {at[0]}, input {at[1]}: {number(value)}</title>"
    if not math.isfinite(value):
        kind, strength = "gs-lost", 1.0
    else:
        kind, strength = ("gs-minus" if value < 0 else "gs-plus"), min(1.0, abs(value) / peak) if peak else 0.0
    rect = f'<rect class="{kind}{mark}" x="{x}" y="{y}" width="{size}" height="{size}" fill-opacity="{strength:.3f}"/>'
    text = f"{value:.2g}" if size >= 30 else ("x" if not math.isfinite(value) else "")
    label = f'<text x="{x + size / 2}" y="{y + size / 2 + 4}" text-anchor="middle">{text}</text>' if text else ""
    return f"<g>{told}{rect}{label}</g>"


def _window(length: int, around: int) -> int:
    """Where the part that is shown starts."""
    return max(0, min(around - _MOST_CELLS // 2, length - _MOST_CELLS))


def _map_words(caption: str, cells: list[list[float]], at: tuple[int, int]) -> str:
    rows, columns = len(cells), max(map(len, cells), default=0)
    if not rows or not columns:
        return "There are no elements."
    part = "; the part around the largest difference is shown" if max(rows, columns) > _MOST_CELLS else ""
    sizes = f"{rows} x {columns}{part}."
    if caption != "difference":
        return sizes.strip()
    if not _peak(cells) and at == (0, 0) and math.isfinite(cells[0][0]):
        return f"{sizes} There is no difference."
    return f"{sizes} The largest difference is {number(cells[at[0]][at[1]])}, at output {at[0]}, input {at[1]}."


def _largest(cells: list[list[float]]) -> tuple[int, int]:
    places = [(i, j) for i, row in enumerate(cells) for j in range(len(row))]
    return max(places, key=lambda at: _distance(cells[at[0]][at[1]], 0.0), default=(0, 0))


def _peak(cells: list[list[float]]) -> float:
    return max((abs(v) for row in cells for v in row if math.isfinite(v)), default=0.0)


# --- both --------------------------------------------------------------------------------------------


def _svg(width: float, height: float, title: str, words: str, parts: Sequence[str]) -> str:
    label = escape(f"{title}. {words}")
    return (
        f'<svg role="img" aria-label="{label}" viewBox="0 0 {width} {height}" width="{width}" height="{height}">'
        f"<title>{escape(title)}</title><desc>{escape(words)}</desc>{''.join(parts)}</svg>"
    )


def _distance(a: float, b: float) -> float:
    """How far apart two numbers are; infinitely where that cannot be told."""
    distance = abs(a - b)
    return distance if math.isfinite(distance) else math.inf


def _floats(values: object) -> list[float]:
    """The numbers of a list; what is none is nan."""
    found = []
    for value in values if isinstance(values, (list, tuple)) else []:
        try:
            found.append(float(value))
        except (TypeError, ValueError, OverflowError):
            found.append(math.nan)
    return found


def _short(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 3] + "..."
