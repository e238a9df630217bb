"""Rules for what one call leaves behind for another."""

from __future__ import annotations

from collections.abc import Iterator

from gradsmith.check._finding import Finding
from gradsmith.check._observation import Observations
from gradsmith.check.rules._shared import (
    compared_finding,
    crash_finding,
    evidence,
    failed,
    joined,
    maker,
    redraws,
    worst,
)
from gradsmith.check.rules.examples.state import EXAMPLES

__all__ = ["RULES"]


def interleaved(observations: Observations) -> Iterator[Finding]:
    seen = [] if redraws(observations) else observations.of("interleaved")
    crashed, bad = failed(seen), worst(seen)
    if bad:
        message = f"Two calls disturb each other ({bad[0].condition})."
        yield compared_finding("GS801", message, _MEND[801], bad)
    elif crashed:
        message = f"Two calls disturb each other: backward fails ({crashed[0].condition})."
        yield crash_finding("GS801", message, _MEND[801], crashed)


def twice(observations: Observations) -> Iterator[Finding]:
    seen = [] if redraws(observations) else observations.of("twice")
    crashed, bad = failed(seen), worst(seen)
    if crashed:
        message = "The second backward on a graph kept with retain_graph=True fails."
        yield crash_finding("GS802", message, _MEND[802], crashed)
    elif bad:
        message = "The second backward on a graph kept with retain_graph=True gives another gradient."
        yield compared_finding("GS802", message, _MEND[802], bad)


def redrawn(observations: Observations) -> Iterator[Finding]:
    bad = worst(observations.of("value"))
    if redraws(observations):
        message = "Backward draws random numbers of its own instead of using those of forward."
        yield compared_finding("GS803", message, _MEND[803], bad)


def nondeterministic(observations: Observations) -> Iterator[Finding]:
    repeat = observations.first("repeat")
    for what in ("grads", "outputs"):
        seen = [c for c in repeat.get(what, []) if c["error"] > 1e3 * repeat["epsilon"] * max(c["scale"], 1e-30)]
        if seen:
            words = "The gradient" if what == "grads" else "The output"
            message = f"{words} differs from one run to the next with the same inputs and the same random numbers."
            yield Finding("GS804", message, hint=_MEND[804], evidence=tuple(evidence(c, "") for c in seen[:3]))
            return


def global_state(observations: Observations) -> Iterator[Finding]:
    changes = observations.first("global state").get("changes", {})
    if changes:
        lines = tuple(f"{name}: {before} before, {after} after" for name, (before, after) in changes.items())
        message = f"A call leaves the process changed: {joined(changes)}."
        yield Finding("GS805", message, hint=_MEND[805], evidence=lines)


def reseeds(observations: Observations) -> Iterator[Finding]:
    names = observations.first("random numbers").get("reseeds")
    if names:
        message = f"A call seeds the global random number generator of {joined(names)}."
        yield Finding("GS806", message, hint=_MEND[806])


def thread(observations: Observations) -> Iterator[Finding]:
    seen = observations.of("thread")
    crashed, bad = failed(seen), worst(seen)
    if crashed:
        message = f"Backward fails: {crashed[0].condition}."
        yield crash_finding("GS807", message, _MEND[807], crashed)
    elif bad:
        message = f"The gradient is another one: {bad[0].condition}."
        yield compared_finding("GS807", message, _MEND[807], bad)


def hangs(observations: Observations) -> Iterator[Finding]:
    seen = observations.of("hang")
    if seen:
        message = f"The {seen[0].data['stage']} did not come back within {seen[0].data['seconds']:.0f} s."
        yield crash_finding("GS808", message, _MEND[808], seen)


def exits(observations: Observations) -> Iterator[Finding]:
    seen = failed(observations.of("exit"))
    if seen:
        message = f"The {seen[0].failure['stage']} calls sys.exit."  # type: ignore[index]
        yield crash_finding("GS809", message, _MEND[809], seen)


_MEND = {
    801: "Keep what belongs to a call on its ctx, not on the class, the module or in a global.",
    802: "Do not delete, pop or overwrite in backward what forward left for it.",
    803: "Save the mask (or the random state) in forward and use it in backward.",
    804: "Fix the order of summation, or draw random numbers from PyTorch's generators.",
    805: "Use the setting as a context manager, or pass dtype, device and the like explicitly.",
    806: "Use a torch.Generator of your own, or torch.random.fork_rng() around the seeding.",
    807: "Do not use thread-local state: on a GPU, backward always runs in another thread.",
    808: "Bound the loop; report failure to converge with an exception.",
    809: "Raise an exception.",
}

_make = maker(_MEND, EXAMPLES)

RULES = [
    _make(
        801,
        "calls-disturb-each-other",
        "A call changes the gradient of another.",
        "A layer used twice in a model, or two models in one process, get gradients of each other.",
        interleaved,
    ),
    _make(
        802,
        "second-backward",
        "The second backward on a kept graph fails or differs.",
        "retain_graph=True is how several losses, Jacobians and some schedules are computed.",
        twice,
    ),
    _make(
        803,
        "random-redrawn",
        "Backward draws random numbers again.",
        "A dropout whose backward has another mask than its forward follows a gradient of nothing.",
        redrawn,
    ),
    _make(
        804,
        "not-deterministic",
        "The same call gives another result each time.",
        "Training cannot be reproduced, and no test can be exact.",
        nondeterministic,
    ),
    _make(
        805,
        "global-state",
        "A call changes a setting of the process.",
        "Code that has nothing to do with the function computes in another dtype, without gradients, or elsewhere.",
        global_state,
    ),
    _make(
        806,
        "reseeds",
        "A call seeds the global generator.",
        "Every dropout and every shuffle after it repeats itself.",
        reseeds,
    ),
    _make(
        807,
        "other-thread",
        "Backward relies on the thread of forward.",
        "On a GPU PyTorch runs backward in a thread of its own.",
        thread,
    ),
    _make(808, "hangs", "A call does not come back.", "The training run stands still, with no error.", hangs),
    _make(809, "exits", "A call ends the process.", "An error that cannot be caught takes everything with it.", exits),
]
