"""How names, numbers and shapes of the checked code are written, in text, HTML and JSON alike."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

__all__ = ["clean", "count", "element", "number", "plain", "shape", "tensor"]


def clean(value: object) -> str:
    """The text of `value`, on which nothing acts: what does not print is written as an escape, but for line ends."""
    text = str(value).expandtabs(4)
    return "".join(c if c.isprintable() or c == "\n" else c.encode("unicode_escape").decode() for c in text)


def number(value: object) -> str:
    """A number as a reader wants it: six digits, whole numbers without a point."""
    if isinstance(value, float):
        return f"{value:.6g}"
    return "none" if value is None else clean(value)


def shape(sizes: Iterable[object] | None) -> str:
    """Sizes as ``--input`` takes them: 3x4, or "scalar"."""
    if sizes is None:
        return ""
    return "x".join(clean(size) for size in sizes) or "scalar"


def tensor(described: Mapping[str, Any]) -> str:
    """One line for a described tensor: name, dtype, sizes, layout."""
    layout = described.get("layout") if described.get("layout") != "contiguous" else ""
    words = [described.get("name"), described.get("dtype"), shape(described.get("shape")), layout]
    line = " ".join(clean(word) for word in words if word)
    return f"{line} (no gradient)" if described.get("requires_grad") is False else line


def element(comparison: Mapping[str, Any]) -> str:
    """Where in which tensor: "grad of x[0, 1]"."""
    at = comparison.get("at")
    name = clean(comparison.get("name", "value"))
    return f"{name}[{', '.join(clean(index) for index in at)}]" if at else name


def count(items: int, one: str, many: str = "") -> str:
    """A number with its noun: "1 finding", "2 findings"."""
    return f"{items} {one if items == 1 else many or one + 's'}"


def plain(value: Any) -> Any:
    """Lists, dicts, strings and finite numbers only, as JSON knows them; "nan", "inf" and "-inf" are strings."""
    if value is None or isinstance(value, (str, bool, int)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return str(value)
