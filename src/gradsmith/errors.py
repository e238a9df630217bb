"""The errors gradsmith raises. Each message names what was wrong, what was expected and what to do."""

__all__ = ["CheckError", "DeclarationError", "GradientError", "GradsmithError", "UsageError"]


class GradsmithError(Exception):
    """Base of every error gradsmith raises itself."""


class DeclarationError(GradsmithError, TypeError):
    """A declaration contradicts itself: an unknown name asked for, a tensor captured, no backward."""


class GradientError(GradsmithError, RuntimeError):
    """A gradient cannot be right: wrong shape or dtype, missing, not differentiable once more."""


class CheckError(GradsmithError, AssertionError):
    """A custom gradient was checked and something is wrong with it; the message lists the findings."""


class UsageError(GradsmithError, ValueError):
    """The prover was asked something it cannot answer: no inputs, nothing differentiable, a name not found."""
