"""What a backward asks for by name, and where it is found among the leaves of a call.

A call is numbered flat: the leaves of its arguments first, then the tensors of its output, then those of its
intermediates. What a backward asks for is a list of such numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from gradsmith.declare._forward import Call, Forward
from gradsmith.declare._signature import Signature, listed
from gradsmith.declare._tree import LEAF, Structure, count_leaves, leaf_names, unflatten
from gradsmith.errors import DeclarationError

__all__ = ["Asked"]

_PARAMETER, _OUTPUT, _KEPT = range(3)


class Asked:
    """The parameters of a backward, after the incoming gradient."""

    def __init__(self, forward: Forward, backward: Callable[..., Any]) -> None:
        signature = Signature(backward)
        if not signature.parameters or signature.parameters[0].kind is signature.parameters[0].KEYWORD_ONLY:
            raise DeclarationError(
                f"the backward of {forward.name} takes nothing; its first parameter is the incoming gradient"
            )
        if signature.unknown:  # a builtin such as torch.neg: it is given the incoming gradient alone
            signature.names, signature.parameters = signature.names[:1], signature.parameters[:1]
        for parameter in signature.parameters:
            if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
                raise DeclarationError(
                    f"the backward of {forward.name} has the parameter {parameter}; name what it needs instead: the "
                    f"incoming gradient first, then any of {listed(_known_names(forward))}"
                )
        known = _known_names(forward)
        for name in signature.names[1:]:
            if name not in known:
                raise DeclarationError(
                    f"the backward of {forward.name} asks for {name!r}, which is not known; "
                    f"after the incoming gradient it can ask for {listed(known)}"
                )
        self._names = signature.names[1:]
        self._places = [known[name] for name in signature.names[1:]]
        self._parameters = [i for kind, i in self._places if kind == _PARAMETER]
        self._only_parameters = len(self._parameters) == len(self._places)
        self._call = (lambda values: backward(*values)) if signature.unknown else signature.caller(backward)

    def numbers(self, call: Call, leaf_count: int) -> list[int]:
        """The flat numbers of everything asked for, in the order of asking."""
        if self._only_parameters and call.arguments is None:
            return self._parameters
        after_output = leaf_count + call.count
        numbers: list[int] = []
        for kind, i in self._places:
            start, before = 0, call.arguments
            if kind == _KEPT:
                start, before = after_output, call.kept
            if kind == _OUTPUT:
                numbers += range(leaf_count, after_output)
            elif before is None:
                numbers.append(i)
            else:
                start += sum(count_leaves(s) for s in before[:i])
                numbers += range(start, start + count_leaves(before[i]))
        return numbers

    def call(self, call: Call, incoming: Any, restored: Sequence[Any]) -> Any:
        """Call the backward with the incoming gradient and the leaves it asked for."""
        if self._only_parameters and call.arguments is None:
            return self._call([incoming, *restored])
        rest = iter(restored)
        return self._call([incoming, *[unflatten(self._structure(call, *place), rest) for place in self._places]])

    def names(self, call: Call) -> list[str]:
        """A name for each leaf asked for."""
        structures = [self._structure(call, *place) for place in self._places]
        return [n for name, s in zip(self._names, structures, strict=True) for n in leaf_names(s, name)]

    def _structure(self, call: Call, kind: int, i: int) -> Structure:
        if kind == _PARAMETER:
            return LEAF if call.arguments is None else call.arguments[i]
        return call.output if kind == _OUTPUT else call.kept[i]


def _known_names(forward: Forward) -> dict[str, tuple[int, int]]:
    known = {name: (_PARAMETER, i) for i, name in enumerate(forward.signature.names)}
    for name, place in [("output", (_OUTPUT, 0)), *[(n, (_KEPT, i)) for i, n in enumerate(forward.keep)]]:
        if name in known:
            raise DeclarationError(
                f"{forward.name} uses the name {name!r} twice, so that a backward could not say which it means; "
                f"rename the parameter or intermediate ('output' always stands for the output)"
            )
        known[name] = place
    return known
