"""Rules for what is returned for what: arity, None, shapes, unused outputs, tensors PyTorch never hears of."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from gradsmith.check._finding import Finding
from gradsmith.check._observation import Observation, Observations
from gradsmith.check.rules._shared import any_dimensions, compared_finding, crash_finding, failed, joined, maker, worst
from gradsmith.check.rules.examples.structure import EXAMPLES
from gradsmith.check.rules.examples.structure_more import MORE

__all__ = ["RULES"]

_STATE = ("SystemExit", "hang")  # rules of their own


def backward_fails(observations: Observations) -> Iterator[Finding]:
    seen = [o for o in _calls(observations) if o.failure["stage"] == "backward"]  # type: ignore[index]
    if not seen or _on_another_device(observations):
        return
    text = seen[0].failure["text"]  # type: ignore[index]
    diagnosis = ""
    if "incorrect number of gradients" in text or "positional argument" in text:
        diagnosis = (
            "backward takes ctx and one gradient for each output, and returns one for each argument of forward, None "
            "for those that are no tensors"
        )
    elif "must implement either the backward" in text or "no autograd formula" in text:
        diagnosis = "there is no backward"
    elif "invalid gradient at index" in text or "expected shape" in text:
        diagnosis = "a gradient must have the shape of its input"
    yield crash_finding("GS301", "Backward fails on the inputs given.", _MEND[301], seen, diagnosis)


def forward_fails(observations: Observations) -> Iterator[Finding]:
    seen = [o for o in _calls(observations) if o.failure["stage"] == "forward"]  # type: ignore[index]
    if seen:
        yield crash_finding("GS302", "Forward fails on the inputs given.", _MEND[302], seen)


def _calls(observations: Observations) -> list[Observation]:
    return [o for o in failed(observations.of("call")) if o.failure["type"] not in _STATE]  # type: ignore[index]


def missing(observations: Observations) -> Iterator[Finding]:
    for o in observations.of("value"):
        names = [c["name"] for c in o.wrong if c.get("missing") and not _inside(c["name"])]
        if names and not observations.of("untracked"):
            message = f"Backward returns None for {joined(names)}, whose gradient is not zero."
            yield compared_finding("GS303", message, _MEND[303], [o])
            return


def _inside(name: str) -> bool:
    return "[" in name


def untracked_input(observations: Observations) -> Iterator[Finding]:
    function = observations.first("subject").get("kind") == "Function"
    names = [c["name"] for o in observations.of("value") for c in o.wrong if c.get("missing") and _inside(c["name"])]
    unattached = observations.first("unattached")
    if function and unattached.get("depends"):
        names += [
            i["name"] for i in observations.first("subject")["inputs"] if i["requires_grad"] and _inside(i["name"])
        ]
    if function and names:
        verb, pronoun = ("is", "it gets") if len(set(names)) == 1 else ("are", "they get")
        message = f"{joined(names)} {verb} inside a container, which apply does not look into: {pronoun} no gradient."
        yield Finding("GS306", message, hint=_MEND[306])


def subset(observations: Observations) -> Iterator[Finding]:
    seen = observations.of("subset")
    crashed, bad = failed(seen), worst(seen)
    lost = [o for o in seen if o.data.get("lost")]
    if crashed:
        yield crash_finding("GS304", f"Backward fails when {crashed[0].condition}.", _MEND[304], crashed)
    elif bad:
        yield compared_finding("GS304", f"The gradient is another one when {bad[0].condition}.", _MEND[304], bad)
    elif lost:
        message = f"The gradient is lost when {lost[0].condition}: no graph node is made."
        yield Finding("GS304", message, hint=_MEND[304], condition=lost[0].condition, count=len(lost))


def unused(observations: Observations) -> Iterator[Finding]:
    seen = observations.of("unused output")
    crashed, bad = failed(seen), worst(seen)
    if crashed:
        message = f"Backward fails when {crashed[0].condition}."
        yield crash_finding("GS305", message, _MEND[305], crashed, _undefined(crashed[0]))
    elif bad:
        message = f"The gradient is another one when {bad[0].condition}: an unused output is not taken for zero."
        yield compared_finding("GS305", message, _MEND[305], bad)


def _undefined(o: Observation) -> str:
    assert o.failure is not None
    return "an output that is not used has None as its gradient" if "None" in o.failure["text"] else ""


def captured(observations: Observations) -> Iterator[Finding]:
    names = observations.first("captured").get("names", [])
    if names:
        first = names[0]
        place = {"closure": "from outside", "global": "from the module", "argument": "inside an argument"}[
            first["kind"]
        ]
        reached = f"{joined(n['name'] for n in names)} ({first['type']})"
        message = f"Forward reaches {reached} {place}; it requires grad and gets none."
        yield Finding("GS307", message, hint=_MEND[307])


def _raw(number: int, field: str) -> Callable[[Observations], Iterator[Finding]]:
    def find(observations: Observations) -> Iterator[Finding]:
        for o in observations.of("returned"):
            rows = [
                r
                for r in o.data["rows"]
                if r["returned"] is not None and r["needs"] and r["returned"][field] != r["input"][field]
            ]
            if rows:
                words = {"shape": "of shape", "dtype": "as", "device": "on"}[field]
                lines = [
                    f"{r['name']}: got {_show(r['returned'][field])}, expected {_show(r['input'][field])}" for r in rows
                ]
                message = (
                    f"Backward of {o.data['name']} returns the gradient of {joined(r['name'] for r in rows)} {words} "
                    f"{_show(rows[0]['returned'][field])}; the input is {_show(rows[0]['input'][field])}."
                )
                yield Finding(f"GS{number}", message, hint=_MEND[number], evidence=tuple(lines))
                return

    return find


def _show(value: object) -> str:
    return str(tuple(value)) if isinstance(value, list) else str(value)


def returned_device(observations: Observations) -> Iterator[Finding]:
    """PyTorch refuses it but for a number, which it moves silently."""
    yield from _raw(310, "device")(observations)
    seen = _on_another_device(observations)
    if seen:
        yield crash_finding("GS310", "Backward returns a gradient on another device than its input.", _MEND[310], seen)


def _on_another_device(observations: Observations) -> list[Observation]:
    return [o for o in _calls(observations) if re.search(r"expected device .* but got", o.failure["text"])]  # type: ignore[index]


def unattached(observations: Observations) -> Iterator[Finding]:
    data = observations.first("unattached")
    if data:
        if data["returned"] == "nothing":
            message = "Forward returns no tensor."
        else:
            message = "The output depends on the inputs, and has no gradient."
        yield Finding("GS311", message, hint=_MEND[311])
    lost = observations.of("untracked output")
    if lost:
        message = f"{joined(o.data['name'] for o in lost)} is inside a {lost[0].data['structure']}: it has no gradient."
        yield Finding("GS311", message, hint=_MEND[311])


def nearby_fails(observations: Observations) -> Iterator[Finding]:
    seen = [o for o in failed(observations.of("neighbour")) if _expected_to_work(o, observations)]
    seen += [o for o in failed(observations.of("precision")) if o.failure["stage"] == "backward"]  # type: ignore[index]
    if seen:
        message = f"Forward takes other inputs, and backward then fails: {seen[0].sample}."
        yield crash_finding("GS312", message, _MEND[312], seen)


def _expected_to_work(o: Observation, observations: Observations) -> bool:
    if o.failure is None or o.failure["type"] in _STATE or o.data.get("kind") in ("options", "fewer dimensions"):
        return False
    return o.data.get("kind") != "ndim" or any_dimensions(observations)


def twice(observations: Observations) -> Iterator[Finding]:
    seen = observations.of("same tensor twice")
    crashed, bad = failed(seen), worst(seen)
    if crashed:
        yield crash_finding("GS313", f"Backward fails when {crashed[0].condition}.", _MEND[313], crashed)
    elif bad:
        message = f"The gradient is not the sum of both when {bad[0].condition}."
        yield compared_finding("GS313", message, _MEND[313], bad)


_MEND = {
    301: "backward(ctx, *grads) takes one gradient per output and returns one per argument of forward.",
    302: "Check the inputs; the error is the function's own.",
    303: "Return its gradient, or detach the input where it is meant to have none.",
    304: "Ask ctx.needs_input_grad for each input by its own index, and save what the others need in any case.",
    305: "With set_materialize_grads(False) treat None as zeros; without it, do not rely on every output being used.",
    306: "Pass tensors as arguments of their own: apply(*tensors); or declare the function with gradsmith, which takes "
    "dicts, lists and dataclasses.",
    307: "Pass it to apply as an argument and return its gradient.",
    308: "Sum over the dimensions that were broadcast, so that the gradient has the shape of its input.",
    309: "Return the gradient in the dtype of its input: grad.to(x.dtype).",
    310: "Return the gradient on the device of its input.",
    311: "Return tensors, or a flat tuple of them, computed in forward; call through apply.",
    312: "Support it, or refuse it in forward with an error that says so.",
    313: "Do not tell inputs apart by identity or address, and add up what both places contribute.",
}

_make = maker(_MEND, EXAMPLES | MORE)

RULES = [
    _make(301, "backward-fails", "Backward raises.", "Nothing can be trained through the function.", backward_fails),
    _make(302, "forward-fails", "Forward raises.", "There is nothing to judge.", forward_fails),
    _make(
        303,
        "gradient-missing",
        "None is returned for an input whose gradient is not zero.",
        "PyTorch takes None for zero: the input is never trained, silently.",
        missing,
    ),
    _make(
        304,
        "subset-of-inputs",
        "Backward fails or is wrong when only some inputs need a gradient.",
        "Freezing a weight, or feeding data that needs no gradient, is the commonest use there is.",
        subset,
    ),
    _make(
        305,
        "unused-output",
        "Backward fails or is wrong when an output is not used.",
        "Whoever uses only one of the outputs gets an error or a wrong gradient.",
        unused,
    ),
    _make(
        306,
        "untracked-container",
        "A tensor inside a list, dict or tuple argument gets no gradient.",
        "PyTorch does not look into containers, and does not say so.",
        untracked_input,
    ),
    _make(
        307,
        "captured-tensor",
        "Forward uses a tensor or module that requires grad and is not an argument.",
        "It gets no gradient, without a word.",
        captured,
    ),
    _make(
        308,
        "returned-shape",
        "Backward returns a gradient of another shape than its input.",
        "PyTorch sums it down silently where it can: a broadcast that was forgotten looks right until it is not.",
        _raw(308, "shape"),
    ),
    _make(
        309,
        "returned-dtype",
        "Backward returns a gradient of another dtype than its input.",
        "PyTorch casts it silently: digits are lost, and compiled autograd does not cast.",
        _raw(309, "dtype"),
    ),
    _make(
        310,
        "returned-device",
        "Backward returns a gradient on another device than its input.",
        "It fails on the first accelerator.",
        returned_device,
    ),
    _make(
        311,
        "unattached",
        "An output has no gradient although it depends on the inputs.",
        "Everything before it is not trained, silently.",
        unattached,
    ),
    _make(
        312,
        "fails-nearby",
        "Backward fails for inputs that forward accepts.",
        "The error comes in training, far from its cause, for a batch of another size or an option nobody tried.",
        nearby_fails,
    ),
    _make(
        313,
        "same-tensor-twice",
        "One tensor passed in two places does not get the sum of both gradients.",
        "Tied weights and self-attention pass the same tensor twice.",
        twice,
    ),
]
