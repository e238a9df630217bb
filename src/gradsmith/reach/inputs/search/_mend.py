"""What an error says about the arguments: other drafts that heed it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from gradsmith.reach.inputs.search._draft import Draft, reshaped
from gradsmith.reach.inputs.search._objects import objects_with
from gradsmith.reach.inputs.search._values import Literal, Tensor, Value

__all__ = ["SHAPES", "mended"]

# By the number of dimensions.
SHAPES: dict[int, tuple[tuple[int, ...], ...]] = {
    0: ((),),
    1: ((5,),),
    2: ((3, 4), (4, 4)),
    3: ((2, 3, 4), (2, 4, 8)),
    4: ((2, 3, 4, 4), (1, 1, 8, 8)),
    5: ((2, 3, 4, 4, 4),),
}
_ORDINALS: tuple[Value, ...] = (Literal(0), Literal(1))
_NUMBERS: tuple[Value, ...] = (Literal(1), Literal(0.5), Literal(2), Literal(-1), Literal(None), Literal(True))
_RANK = (
    r"\b(?:expected|must be|should be|requires?|only|got|a|to be|support\w*)\D{0,30}?\b(\d)[- ]?D\b",
    r"\b(\d)[- ]?D (?:tensor|input|\()",
    r"(?:expected|requires?|with) (\d) dim",
    r"not enough values to unpack \(expected (\d)",
    r"too many values to unpack \(expected (\d)",
    r"dim(?:ension)?s? ?(?:==|of|must be|should be) ?(\d)",
)
_WANTS_TENSOR = (
    r"must be Tensor|'(?:float|int|bool|str|tuple)' object (?:has no attribute|is not subscriptable)|"
    r"not (?:float|int|bool)"
)
_WANTS_NUMBER = (
    r"interpreted as an integer|only integer|Boolean value of Tensor|Python scalars?|not Tensor|scalar type|must be "
    r"(?:an? )?(?:int|float|bool|number|str|real)|converted to Scalar|unhashable|"
    r"a Tensor with \d+ elements|'Tensor' and"
)
_WANTS_INDEX = (
    r"scalar type (?:Long|Int)|indices must be|tensors used as indices|dtype (?:of )?int64|expected .*index|"
    r"to be (?:Long|int)"
)


def mended(draft: Draft, error: str, words: Iterable[str] = (), module: str = "") -> Iterator[Draft]:
    """Drafts that do what the error asks for; none where it asks for nothing that is understood.

    Args:
        draft: What raised it.
        error: Its type and text.
        words: What options are compared with in the source.
        module: Where the function is from; objects an argument may have to be are looked for beside it.
    """
    if missing := re.search(r"'Tensor' object has no attribute '(\w+)'", error):
        for made in objects_with(missing[1], module):
            yield from _exchanged(draft, lambda v: isinstance(v, Tensor), (made,), first=1)
    if re.search(
        r"gradients? (?:with respect|w\.r\.t|for|of)|not differentiable|requires?_grad|needs_input_grad", error
    ):
        yield from _fewer(draft)
    yield from _ranks(draft, error)
    yield from _sizes(draft, error)
    yield from _strings(draft, error, words)
    if "NoneType" in error:
        yield from _exchanged(draft, lambda v: isinstance(v, Literal) and v.value is None, (Tensor(), Literal(1)))
    if re.search(_WANTS_TENSOR, error):
        yield from _exchanged(draft, _is_number, (Tensor("positive", ()), Tensor()))
    if re.search(_WANTS_INDEX, error):
        yield from _exchanged(draft, lambda v: isinstance(v, Tensor), (Tensor("index"), Tensor("index", (3,))))
    if re.search(_WANTS_NUMBER, error):
        yield from _exchanged(draft, lambda v: isinstance(v, Tensor), _NUMBERS, first=1)
    if "tensor has no dimensions" in error or "0-d" in error:
        yield from _exchanged(draft, lambda v: isinstance(v, Tensor) and not v.shape, (Tensor("positive", (1, 1)),))
    if "not callable" in error:
        yield from _exchanged(draft, lambda v: True, (Literal(lambda x, *_: x, "lambda x, *_: x"),))
    if re.search(r"positive[- ]definite|symmetric|square|singular|cholesky", error, re.IGNORECASE):
        yield draft.of_kind("definite").shaped((4, 4))
        yield draft.shaped((4, 4))
    if re.search(r"complex", error, re.IGNORECASE):
        yield draft.of_kind("complex")


def _ranks(draft: Draft, error: str) -> Iterator[Draft]:
    for pattern in _RANK:
        for found in re.finditer(pattern, error):
            for shape in SHAPES.get(int(found[1]), ()):
                yield _reshaped(draft, shape)
    if "out of range" in error and "dimension" in error.lower():
        yield _reshaped(draft, (2, 3, 4))
        yield _reshaped(draft, (2, 3, 4, 4))


def _reshaped(draft: Draft, shape: tuple[int, ...]) -> Draft:
    plain = tuple(
        replace(v, shape=Tensor().shape) if isinstance(v, Tensor) and v.shape not in ((), (1,)) else v
        for v in draft.args
    )
    return replace(draft, args=plain).shaped(shape)


def _sizes(draft: Draft, error: str) -> Iterator[Draft]:
    """Sizes that must agree, or have a certain value."""
    shape = next((v.shape for v in draft.args if isinstance(v, Tensor)), ())
    for found in re.finditer(r"last dim\w*\D{0,40}?(\d+)|shape\[-1\] ?== ?(\d+)|size\(-1\) ?== ?(\d+)", error):
        last = int(next(filter(None, found.groups())))
        if shape and 0 < last < 64:
            yield _reshaped(draft, (*shape[:-1], last))
    if re.search(r"divisible|even\b|power of (?:2|two)", error):
        yield _reshaped(draft, tuple(8 for _ in shape) or (8,))
    if re.search(r"must match|shapes? cannot be|size mismatch|not broadcastable|inconsistent|does not match", error):
        places = draft.tensors[1:]
        for other in (shape[-1:], shape[:1], shape[1:2], (), (1,)):
            for place in places:
                yield draft.with_arg(place, reshaped(draft.args[place], other))
            if len(places) > 1:
                made = draft
                for place in places:
                    made = made.with_arg(place, reshaped(draft.args[place], other))
                yield made


def _fewer(draft: Draft) -> Iterator[Draft]:
    """Not every tensor requires grad: only one, or all but one."""
    for chosen in draft.tensors:
        for others in (True, False):
            made = draft
            for place in draft.tensors:
                still = (place != chosen) if others else (place == chosen)
                made = made.with_arg(place, _stilled(draft.args[place], still))
            yield made


def _stilled(value: Value, still: bool) -> Value:
    return replace(value, still=still) if isinstance(value, Tensor) else value


def _strings(draft: Draft, error: str, told: Iterable[str]) -> Iterator[Draft]:
    """Legal values that an error lists, and those the source compares options with, where it is about one in use."""
    used = [v.value for v in draft.args if isinstance(v, Literal) and isinstance(v.value, str)]
    if not used:
        return
    words = re.findall(r"['\"]([A-Za-z][\w-]{0,30})['\"]", error)
    listed = re.search(r"(?:[Aa]vailable|one of|supported|valid|choose from|expected)\W+([\w\-, ]+)", error)
    if listed:
        words += [w for w in re.split(r"[,\s]+|\bor\b|\band\b", listed[1]) if re.fullmatch(r"[A-Za-z][\w-]+", w)]
    if any(word in error for word in used):
        words += told
        yield from _exchanged(draft, lambda v: isinstance(v, Literal) and isinstance(v.value, str), _ORDINALS)
    for word in dict.fromkeys(words):
        if word in ("Tensor", "NoneType", "float", "int", "str", "bool"):
            continue
        yield from _exchanged(draft, lambda v: isinstance(v, Literal) and isinstance(v.value, str), (Literal(word),))


def _is_number(value: Value) -> bool:
    return isinstance(value, Literal) and isinstance(value.value, (int, float, tuple))


def _exchanged(
    draft: Draft, fits: Callable[[Value], bool], values: tuple[Value, ...], first: int = 0
) -> Iterator[Draft]:
    shape = next((v.shape for v in draft.args if isinstance(v, Tensor)), Tensor().shape)
    for value in values:
        for place, old in enumerate(draft.args):
            if place >= first and fits(old) and old != value:
                yield draft.with_arg(place, value).shaped(shape)
