"""Rules for large and tiny numbers, low precision and autocast."""

from __future__ import annotations

from collections.abc import Iterator

from gradsmith.check._finding import Finding
from gradsmith.check._observation import Observations
from gradsmith.check.rules._shared import compared_finding, crash_finding, failed, joined, maker, rounds, worst
from gradsmith.check.rules.examples.numerics import EXAMPLES

__all__ = ["RULES"]


def not_finite(observations: Observations) -> Iterator[Finding]:
    seen = [o for o in observations.of("finite") if o.data["bad"]]
    if seen:
        first = seen[0].data["bad"][0]
        message = (
            f"The gradient of {first['name']} is {first['value']} where output and true gradient are finite: "
            f"{seen[0].sample} ({seen[0].condition})."
        )
        lines = tuple(
            f"gradient of {b['name']}: {b['value']} where the input is {b['input']} ({b['count']} of {b['of']})"
            for b in seen[0].data["bad"]
        )
        yield Finding(
            "GS701",
            message,
            hint=_MEND[701],
            evidence=lines,
            sample=seen[0].sample,
            condition=seen[0].condition,
            count=len(seen),
        )


def low_precision(observations: Observations) -> Iterator[Finding]:
    seen = worst(observations.of("low precision", "given precision"))
    if rounds(observations):
        inside = worst(observations.of("linearity"))
        message = "Backward computes in less precision than its inputs have."
        yield compared_finding("GS702", message, _MEND[702], inside)
    elif seen:
        message = f"In {joined(o.condition for o in seen)} the gradient loses far more than the precision explains."
        yield compared_finding("GS702", message, _MEND[702], seen)


def autocast(observations: Observations) -> Iterator[Finding]:
    seen = [o for o in observations.of("transform") if o.data["transform"] == "autocast"]
    crashed = [o for o in failed(seen) if o.failure["stage"] == "backward"]  # type: ignore[index]
    bad = worst(seen)
    if crashed:
        message = "Backward fails after a forward under autocast."
        yield crash_finding("GS703", message, _MEND[703], crashed)
    elif bad:
        yield compared_finding("GS703", "The gradient is wrong after a forward under autocast.", _MEND[703], bad)


def forward(observations: Observations) -> Iterator[Finding]:
    seen = worst(observations.of("reference forward"))
    if seen:
        message = f"{joined(c['name'] for c in seen[0].wrong)} is not what the reference forward gives."
        yield compared_finding("GS704", message, _MEND[704], seen, what="")


_MEND = {
    701: "Write it so that nothing overflows: torch.sigmoid, logsumexp, expm1, a shift by the maximum; mask before "
    "dividing.",
    702: "Compute sums and differences of large numbers in float32 and cast at the end.",
    703: "Decorate forward with torch.amp.custom_fwd and backward with custom_bwd, of one device type, or cast what "
    "backward mixes to one dtype.",
    704: "Compare the two term by term, beginning with the element shown.",
}

_make = maker(_MEND, EXAMPLES)

RULES = [
    _make(
        701,
        "not-finite",
        "The gradient is nan or infinite where the true one is finite.",
        "One nan in a batch ends a training run.",
        not_finite,
    ),
    _make(
        702,
        "low-precision",
        "The gradient is much worse in low precision than plain autograd's.",
        "Models are trained in bfloat16.",
        low_precision,
    ),
    _make(
        703,
        "autocast",
        "Backward fails or is wrong after a forward under autocast.",
        "Mixed precision is how large models are trained.",
        autocast,
    ),
    _make(
        704,
        "reference-forward",
        "The output is not that of the reference forward.",
        "A gradient can be right for a forward that is wrong.",
        forward,
    ),
]
