"""What an expression shares memory with, given what the names in it share memory with."""

from __future__ import annotations

import ast
from dataclasses import dataclass, replace

from gradsmith.check.source._syntax import dotted, is_none_test

__all__ = ["HIDDEN", "RAW", "Origins", "State", "Value", "changes", "meet"]

RAW = "raw"  # still exactly what came in, not a view or a copy of it
HIDDEN = "hidden"  # taken by `.data`, `.detach()` or numpy: autograd does not see what is done to it
MARKS = frozenset({RAW, HIDDEN})

VIEWS = {
    "alias", "as_strided", "as_tensor", "asarray", "atleast_1d", "atleast_2d", "atleast_3d", "cpu", "contiguous",
    "data", "detach", "diagonal", "expand", "expand_as", "flatten", "float", "from_numpy", "H", "imag", "mH", "mT",
    "movedim", "moveaxis", "narrow", "numpy", "permute", "ravel", "real", "requires_grad_", "reshape", "reshape_as",
    "select", "squeeze", "swapaxes", "swapdims", "T", "t", "to", "transpose", "type_as", "unflatten", "unfold",
    "unsqueeze", "view", "view_as", "view_as_complex", "view_as_real", "cuda", "detach_",
}  # fmt: skip
ATTRIBUTES = {"data", "T", "mT", "H", "mH", "real", "imag"}
PIECES = {"split", "chunk", "unbind", "tensor_split", "hsplit", "vsplit", "dsplit"}
HIDING = {"data", "detach", "numpy", "asarray", "from_numpy"}
NOT_A_CHANGE = {"requires_grad_", "detach_", "share_memory_", "rename_", "retain_grad_"}
NEW_TYPES = ("64", "double", "16", "half", "int", "long", "bool", "complex", "copy")


@dataclass(frozen=True)
class Value:
    """A tensor, or a tuple or list of tensors (`many`), with the memory it shares."""

    origins: frozenset[str]
    many: bool = False

    @property
    def shared(self) -> frozenset[str]:
        return self.origins - MARKS

    def without(self, *marks: str) -> Value:
        return replace(self, origins=self.origins - set(marks))

    def one(self) -> Value:
        return Value(self.origins, False)


State = dict[str, Value]


def meet(a: State | None, b: State | None) -> State | None:
    if a is None or b is None:
        return a if b is None else b
    return {
        name: Value(a[name].origins & b[name].origins, a[name].many)
        for name in a.keys() & b.keys()
        if a[name].many == b[name].many and a[name].shared & b[name].shared
    }


class Origins:
    """Values of expressions.

    Args:
        attributes: What attributes of parameters are, by their text: `{"ctx.saved_tensors": ...}`.
    """

    def __init__(self, attributes: State | None = None) -> None:
        self.attributes = attributes or {}

    def value(self, node: ast.AST, state: State) -> Value | None:
        """What an expression shares memory with, as far as that is certain."""
        if isinstance(node, ast.Name):
            return state.get(node.id)
        if isinstance(node, ast.NamedExpr):
            return self.value(node.value, state)
        if isinstance(node, ast.Attribute):
            known = self.attributes.get(dotted(node))
            if known is not None:
                return known
            return self.view(node.attr, self.value(node.value, state)) if node.attr in ATTRIBUTES else None
        if isinstance(node, ast.Subscript):
            return self.item(node, self.value(node.value, state))
        if isinstance(node, ast.Call):
            return self.result(node, state)
        if isinstance(node, ast.IfExp):
            return self.either(node, state)
        if isinstance(node, (ast.Tuple, ast.List)) and node.elts:
            values = [self.value(e.value if isinstance(e, ast.Starred) else e, state) for e in node.elts]
            known_values = [v for v in values if v is not None]
            if len(known_values) == len(values):
                shared = frozenset.intersection(*(v.origins for v in known_values))
                return Value(shared, True) if shared - MARKS else None
        return None

    def either(self, node: ast.IfExp, state: State) -> Value | None:
        yes, no = self.value(node.body, state), self.value(node.orelse, state)
        absent = is_none_test(node.test)
        if absent is not None:
            return no if absent[1] else yes
        met = meet({"": yes} if yes else {}, {"": no} if no else {})
        return met.get("") if met else None

    def item(self, node: ast.Subscript, base: Value | None) -> Value | None:
        if base is None:
            return None
        if base.many:
            return base if isinstance(node.slice, ast.Slice) else base.one()
        indices = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        # A negative number is an operation on a constant.
        plain = [i.operand if isinstance(i, ast.UnaryOp) else i for i in indices]
        basic = all(isinstance(i, (ast.Slice, ast.Constant)) for i in plain)
        return base.without(RAW) if basic else None

    def result(self, node: ast.Call, state: State) -> Value | None:
        name = getattr(node.func, "attr", dotted(node.func))
        base = self.value(node.func.value, state) if isinstance(node.func, ast.Attribute) else None
        rest = list(node.args)
        if base is None and node.args:
            plain = dotted(node.func)
            if plain in ("list", "tuple", "reversed"):
                value = self.value(node.args[0], state)
                return value if value is not None and value.many else None
            if plain.partition(".")[0] not in ("torch", "np", "numpy", "F"):
                return None
            base, rest = self.value(node.args[0], state), rest[1:]
        if base is None or base.many:
            return None
        if name == "to" and any(_other_type(a) for a in [*rest, *(k.value for k in node.keywords)]):
            return None
        if any(k.arg == "copy" for k in node.keywords):
            return None
        if name == "view" and rest and _other_type(rest[0]):
            return base.without(RAW)
        return self.view(name, base)

    def view(self, name: str, base: Value | None) -> Value | None:
        if base is None or base.many:
            return None
        if name in PIECES:
            return Value(base.origins - {RAW}, True)
        if name not in VIEWS and not changes(name):
            return None
        return Value(base.origins - {RAW} | ({HIDDEN} if name in HIDING else set()))


def changes(name: str) -> bool:
    return name.endswith("_") and not name.endswith("__") and name not in NOT_A_CHANGE and name != "_"


def _other_type(node: ast.AST) -> bool:
    """Whether an argument of `.to` surely asks for another type than that of a float32 tensor."""
    name = dotted(node).rpartition(".")[2]
    return name != "dtype" and any(part in name for part in NEW_TYPES)
