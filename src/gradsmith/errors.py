"""The errors gradsmith raises. Each message names what was wrong, what was expected and what to do."""

__all__ = ["DeclarationError", "GradientError", "GradsmithError"]


class GradsmithError(Exception):
    """Base of every error gradsmith raises itself."""


class DeclarationError(GradsmithError, TypeError):
    """A declaration contradicts itself: an unknown name asked for, a tensor captured, no backward."""


class GradientError(GradsmithError, RuntimeError):
    """A gradient cannot be right: wrong shape or dtype, missing, not differentiable once more."""
