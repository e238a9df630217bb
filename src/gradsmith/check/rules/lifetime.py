"""Rules for what is kept, how, and for how long."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from gradsmith.check._finding import Finding
from gradsmith.check._observation import Observations
from gradsmith.check.rules._shared import compared_finding, crash_finding, failed, joined, maker, worst
from gradsmith.check.rules.examples.lifetime import EXAMPLES
from gradsmith.check.rules.source_context import unused_saved
from gradsmith.check.source._syntax import owners

__all__ = ["RULES"]


def _on_ctx(number: int, *kinds: str) -> Callable[[Observations], Iterator[Finding]]:
    def find(observations: Observations) -> Iterator[Finding]:
        found = [a for o in observations.of("ctx") for a in o.data["attributes"] if a["kind"] in kinds]
        if found:
            what = joined(f"an {a['kind']}" for a in found)
            message = f"ctx.{joined(a['name'] for a in found)} keeps {what} outside save_for_backward."
            yield Finding(f"GS{number}", message, hint=_MEND[number], count=len(found))

    return find


def leak(observations: Observations) -> Iterator[Finding]:
    alive = observations.first("leak").get("alive", {})
    if alive:
        name = sorted(alive, key=lambda n: alive[n] != "for ever")[0]
        message = f"After a call {joined(alive)} {'stays' if len(alive) == 1 else 'stay'} alive {alive[name]}."
        yield Finding("GS403", message, hint=_MEND[403], count=len(alive))


def read_twice(observations: Observations) -> Iterator[Finding]:
    reads = observations.first("saved by hooks").get("reads", 0)
    if reads > 1:
        message = f"Backward reads ctx.saved_tensors {reads} times."
        yield Finding("GS405", message, hint=_MEND[405])


def checkpoint(observations: Observations) -> Iterator[Finding]:
    seen = [o for o in observations.of("transform") if o.data["transform"] == "checkpoint"]
    reads = observations.first("saved by hooks").get("reads", 0)
    crashed, bad = failed(seen), worst(seen)
    if crashed and reads <= 1:
        yield crash_finding("GS406", "Backward fails under torch.utils.checkpoint.", _MEND[406], crashed)
    elif bad:
        yield compared_finding("GS406", "The gradient is another one under torch.utils.checkpoint.", _MEND[406], bad)


def hooks(observations: Observations) -> Iterator[Finding]:
    seen = observations.of("saved by hooks")
    crashed, bad = failed(seen), worst(seen)
    if crashed:
        yield crash_finding("GS407", "Backward fails when saved tensors are copied by a hook.", _MEND[407], crashed)
    elif bad:
        message = "The gradient is another one when saved tensors are copied by a hook."
        yield compared_finding("GS407", message, _MEND[407], bad)


def never_read(observations: Observations) -> Iterator[Finding]:
    """By value and by text: a gradient computed anew by autograd may well not change with what it was saved for."""
    rows = [r for r in observations.first("saved").get("rows", []) if not r["read"]]
    if not rows:
        return
    reads = observations.first("saved by hooks").get("reads", 0)
    spots = [spot for owner in owners(observations) for spot in unused_saved(owner, values=True)]
    if not reads or spots:
        message = f"{len(rows)} of the tensors saved for backward {'is' if len(rows) == 1 else 'are'} never used there."
        where = spots[0].unit.where(spots[0].node) if spots else ""
        lines = tuple(
            f"saved tensor {r['place']} of shape {tuple(r['shape'])}: any value gives the same gradient" for r in rows
        )
        yield Finding("GS404", message, hint=_MEND[404], evidence=lines, where=where, count=len(rows))


_MEND = {
    401: "Save it with ctx.save_for_backward and take it from ctx.saved_tensors.",
    402: "Save it with ctx.save_for_backward too; PyTorch 2.13 asks for that for every tensor.",
    403: "Do not keep tensors on ctx, on the class or in a global; save them with ctx.save_for_backward.",
    404: "Do not save it; keep its shape or dtype on ctx if that is all that is needed.",
    405: "Read ctx.saved_tensors once: a, b = ctx.saved_tensors.",
    406: "Compute the same in every call of forward, and keep no state between forward and backward but through ctx.",
    407: "Do not rely on a saved tensor being the very same object or memory.",
}

_make = maker(_MEND, EXAMPLES)

RULES = [
    _make(
        401,
        "input-or-output-on-ctx",
        "An input or output is kept on ctx instead of being saved.",
        "A write to it in between goes unnoticed (wrong gradients), an output makes a reference cycle (memory), and "
        "offloading and checkpointing do not see it.",
        _on_ctx(401, "input", "output"),
    ),
    _make(
        402,
        "intermediate-on-ctx",
        "A tensor computed in forward is kept on ctx instead of being saved.",
        "Saved-tensor hooks, offloading and checkpointing do not see it, so the memory they should free stays.",
        _on_ctx(402, "intermediate"),
    ),
    _make(
        403,
        "leak",
        "Tensors of a call stay alive after it.",
        "Memory grows until the garbage collector runs, or for ever: on a GPU that is out of memory.",
        leak,
    ),
    _make(
        404,
        "saved-never-read",
        "A tensor is saved for backward and never used there.",
        "It holds memory from forward to backward for nothing.",
        never_read,
    ),
    _make(
        405,
        "saved-read-twice",
        "ctx.saved_tensors is read more than once in a backward.",
        "Each reading unpacks everything again, and non-reentrant checkpointing raises at the second.",
        read_twice,
    ),
    _make(
        406,
        "checkpoint",
        "Backward fails or is wrong under activation checkpointing.",
        "Large models are trained with it.",
        checkpoint,
    ),
    _make(
        407,
        "saved-tensor-hooks",
        "Backward fails or is wrong when a hook replaces saved tensors by copies.",
        "That is what offloading to the CPU does.",
        hooks,
    ),
]
