"""The catalogue: operations that act on gradients, one short file per family."""

from gradsmith.ops.scale import reverse_gradient, scale_gradient
from gradsmith.ops.split import split_and_scale

__all__ = ["reverse_gradient", "scale_gradient", "split_and_scale"]
