"""Bad use of `check`, each in one sentence."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from gradsmith.check._guard import Clock, OvertimeError, text_of
from gradsmith.check._observation import Observations
from gradsmith.errors import UsageError

__all__ = ["looking", "refuse_options", "refuse_undifferentiable", "refuse_unjudged"]


def refuse_options(*, fast: bool, thorough: bool, timeout: Any, seed: Any, progress: Any) -> None:
    """Options that mean nothing."""
    if fast and thorough:
        raise UsageError("fast and thorough: got both; choose one")
    if not (isinstance(timeout, (int, float)) and timeout > 0):
        raise UsageError(f"timeout: got {timeout!r}; expected a number of seconds above 0")
    if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed < 2**63:
        raise UsageError(f"seed: got {seed!r}; expected a whole number from 0 to 2**63 - 1")
    if progress is not None and not callable(progress):
        raise UsageError(f"progress: got {progress!r}; expected a callable that takes done, total and what comes next")


@contextmanager
def looking(argument: str, clock: Clock) -> Iterator[None]:
    """Look at what was given, whose attributes may raise or hang."""
    try:
        with clock.limit(clock.timeout / 10):
            yield
    except (UsageError, KeyboardInterrupt):
        raise
    except OvertimeError:
        raise UsageError(f"{argument}: reading its attributes did not come back in time; pass another object") from None
    except BaseException as error:  # noqa: BLE001  (the author's code may raise anything)
        words = f"{type(error).__name__}: {text_of(error)}".splitlines()[0]
        raise UsageError(f"{argument}: reading its attributes raises {words}; pass another object") from None


def refuse_unjudged(observations: Observations, timeout: float) -> None:
    """A check whose time was up before anything was seen, or whose reference fails, says nothing of the gradient."""
    if not observations.of("call", "unattached", "hang"):
        raise UsageError(f"timeout: {timeout:g} s were over before the first call came back; give it more")
    if observations.first("reference forward").get("count", [1, 1])[1] == 0:
        raise UsageError("reference: it returns no tensor; expected a callable that returns what the subject does")
    for law, argument in (("reference forward", "reference"), ("declared gradient", "gradient_of")):
        failure = observations.first(law).get("failure")
        if failure:
            raise UsageError(
                f"{argument}: it fails on the inputs with {failure['type']}: {failure['text']}; expected a callable "
                f"that takes the arguments of the subject"
            )


def refuse_undifferentiable(observations: Observations) -> None:
    """A subject without a gradient that has no use for one is no faulty gradient, but none at all."""
    data, subject = observations.first("unattached"), observations.first("subject")
    if not data or data["depends"] or (subject["kind"] == "Function" and data["returned"] == "nothing"):
        return
    name = subject["name"]
    what = (
        f"{name} returns no tensor"
        if data["returned"] == "nothing"
        else f"what {name} returns has no gradient and does not change with the inputs"
    )
    raise UsageError(f"subject: {what}; expected a differentiable function of the inputs that require grad")
