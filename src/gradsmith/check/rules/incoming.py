"""Rules for how the incoming gradient is used, for memory layout, and for writing to what belongs to others."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from gradsmith.check._diagnosis import diagnose
from gradsmith.check._finding import Finding
from gradsmith.check._observation import Observation, Observations, wrong
from gradsmith.check.rules._shared import (
    compared_finding,
    crash_finding,
    failed,
    is_waived,
    joined,
    maker,
    redraws,
    rounds,
    worst,
)
from gradsmith.check.rules.examples.incoming import EXAMPLES

__all__ = ["RULES"]

_LAYOUT = "layout of the incoming gradient"


def ignored(observations: Observations) -> Iterator[Finding]:
    names = _ignoring(observations)
    if names:
        message = f"The gradient of {joined(names)} does not depend on the incoming gradient."
        yield Finding(
            "GS201",
            message,
            hint=_MEND[201],
            diagnosis="it is the same for two unrelated incoming gradients, and not zero",
        )


def _ignoring(observations: Observations) -> list[str]:
    seen = observations.of("incoming ignored")
    return [
        c["name"]
        for o in seen
        for c in o.comparisons
        if c["error"] <= 1e-12 * max(c["scale"], 1e-300) and c["scale"] > 0
    ]


def uniform(observations: Observations) -> Iterator[Finding]:
    if _ignoring(observations) or is_waived(observations, "derivative"):
        return
    seen = [
        o
        for o in observations.of("value", "neighbour")
        if o.wrong and any(a.startswith("incoming gradient replaced") for a in o.data.get("alternatives", []))
    ]
    if seen:
        message = "Backward treats the incoming gradient as if all its elements were equal."
        yield compared_finding("GS202", message, _MEND[202], seen, diagnosis=diagnose(seen[0]))


def not_linear(observations: Observations) -> Iterator[Finding]:
    seen = [o for o in worst(observations.of("linearity")) if not _ignoring(observations)]
    if not seen or (rounds(observations) and _returned_narrow(observations)):
        return
    first = seen[0]
    diagnosis = {
        "zero": "it is not zero for a zero incoming gradient: something is added that does not scale with it",
        "1000 times as large": "large incoming gradients are cut off or rescaled",
        "1000 times smaller": "small incoming gradients are rescaled or lost",
    }.get(next((o.condition for o in reversed(seen) if o.condition != "sum of two"), ""), "")
    if rounds(observations):
        diagnosis = "it is off by a little, everywhere: something is rounded or quantised on the way"
    message = f"The gradient of {joined(c['name'] for c in first.wrong)} is not linear in the incoming gradient."
    yield compared_finding("GS203", message, _MEND[203], seen, diagnosis=diagnosis)


def _returned_narrow(observations: Observations) -> bool:
    """Whether a gradient was returned in less precision than its input has: then that is the fault."""
    rows = [r for o in observations.of("returned") for r in o.data["rows"] if r["returned"] is not None]
    return any(r["returned"]["dtype"] != r["input"]["dtype"] for r in rows)


def layout_wrong(observations: Observations) -> Iterator[Finding]:
    seen = [] if redraws(observations) else worst(observations.of(_LAYOUT))
    if seen:
        message = f"The gradient is wrong when the incoming gradient is {joined(o.condition for o in seen[:3])}."
        yield compared_finding("GS204", message, _MEND[204], seen, diagnosis=_only(seen))


def layout_crash(observations: Observations) -> Iterator[Finding]:
    seen = failed(observations.of(_LAYOUT))
    if seen:
        message = f"Backward fails when the incoming gradient is {joined(o.condition for o in seen[:3])}."
        yield crash_finding("GS205", message, _MEND[205], seen)


def _only(seen: list[Observation]) -> str:
    return f"the same values laid out contiguously give another gradient; {_layouts(seen)} it"


def _layouts(seen: list[Observation]) -> str:
    return f"{len(seen)} layouts show" if len(seen) > 1 else "1 layout shows"


def input_layout(observations: Observations) -> Iterator[Finding]:
    seen = observations.of("layout of the inputs")
    bad = [o for o in seen if o.wrong or any(wrong(c) for c in o.data.get("outputs", []))]
    if bad:
        outputs = [c for c in bad[0].data.get("outputs", []) if wrong(c)]
        what = "output" if outputs else "gradient"
        message = f"The {what} is wrong when the inputs are {joined(o.condition for o in bad[:3])} in memory."
        shown = [Observation(o.law, o.sample, o.condition, {"comparisons": outputs or o.comparisons}) for o in bad]
        yield compared_finding("GS206", message, _MEND[206], shown, what="" if outputs else "gradient of ")
    crashed = failed(seen)
    if crashed and not bad:
        layouts = joined(o.condition for o in crashed[:3])
        message = f"Forward takes inputs that are {layouts} in memory, and backward then fails."
        yield crash_finding("GS206", message, _MEND[206], crashed)


def _written(observations: Observations, *what: str) -> list[tuple[str, str]]:
    return [
        (o.condition, w["name"]) for o in observations.of("mutation") for w in o.data["written"] if w["what"] in what
    ]


def _mutation(number: int, *what: str) -> Callable[[Observations], Iterator[Finding]]:
    def find(observations: Observations) -> Iterator[Finding]:
        found = _written(observations, *what)
        if any(not name.startswith("saved tensor") for _, name in found):  # an output that was saved needs one name
            found = [(stage, name) for stage, name in found if not name.startswith("saved tensor")]
        if found:
            stage = joined(s.capitalize() for s, _ in found)
            message = f"{stage} writes to {joined(n for _, n in found)}."
            yield Finding(f"GS{number}", message, hint=_MEND[number], condition=found[0][0], count=len(found))

    return find


_MEND = {
    201: "Multiply every term by the incoming gradient: it is what the rest of the network makes of this output.",
    202: "Use each element of the incoming gradient where it belongs, before any sum over elements.",
    203: "A derivative is linear in it. If clipping or normalising is meant, pass waive=('linearity',).",
    204: "Call grad.contiguous() before handing its memory to a kernel, or use its strides.",
    205: "Use grad.reshape(...) instead of view, or grad.contiguous() first.",
    206: "Call .contiguous() on the input in forward and save that, or use strides; or refuse it in forward.",
    207: "Work on a new tensor: grad = grad * mask, or grad.clone() first. Others may hold the same tensor.",
    208: "Write to a copy; or declare the write with ctx.mark_dirty(x) and return x.",
    209: "Write to a copy: what was saved may be read again, and is shared with whoever saved the same tensor.",
}

_make = maker(_MEND, EXAMPLES)

RULES = [
    _make(
        201,
        "incoming-ignored",
        "The gradient does not depend on the incoming gradient.",
        "It is right for loss = output.sum() and wrong as soon as the loss is scaled, averaged or added to another.",
        ignored,
    ),
    _make(
        202,
        "incoming-assumed-uniform",
        "The incoming gradient is treated as if all its elements were equal.",
        "Right under sum() and mean(), wrong for per-sample weights and every other loss.",
        uniform,
    ),
    _make(
        203,
        "not-linear",
        "The gradient is not linear in the incoming gradient.",
        "Gradient accumulation, loss scaling and several losses then give another result than their sum. It may be "
        "meant, for clipping: waive it then.",
        not_linear,
    ),
    _make(
        204,
        "incoming-layout-wrong",
        "The gradient is wrong for an expanded, transposed or offset incoming gradient.",
        "sum().backward() hands over an expanded tensor, a transpose after the operation a transposed one; tests with "
        "torch.ones_like see neither.",
        layout_wrong,
    ),
    _make(
        205,
        "incoming-layout-fails",
        "Backward fails for an expanded, transposed or offset incoming gradient.",
        "An ordinary graph stops with an error that does not depend on anything its author did.",
        layout_crash,
    ),
    _make(
        206,
        "input-layout",
        "Output or gradient is wrong, or backward fails, for inputs that are not contiguous.",
        "Slices of a fused projection, transposed and expanded tensors are ordinary inputs.",
        input_layout,
    ),
    _make(
        207,
        "writes-to-incoming-gradient",
        "Backward writes to the incoming gradient.",
        "The same tensor may be the gradient of another branch, of a retained output or of a hook: they all change.",
        _mutation(207, "incoming gradient"),
    ),
    _make(
        208,
        "writes-to-input",
        "An input is written to without saying so.",
        "Whoever else uses the tensor, or saved it, computes with other numbers.",
        _mutation(208, "input"),
    ),
    _make(
        209,
        "writes-to-saved",
        "Backward writes to an output or to a tensor it saved.",
        "The second backward on a kept graph and every other holder of the tensor get other numbers.",
        _mutation(209, "output", "saved tensor"),
    ),
]
