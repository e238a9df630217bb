"""Declare a gradient once; every transform follows from the declaration.

(The names that are not in `__all__` serve the rooms built on this one.)
"""

from gradsmith.declare._declared import CustomGradient, DeclaredFunction, SurrogateGradient
from gradsmith.declare._forward import keep
from gradsmith.declare._private import being_traced as being_traced
from gradsmith.declare._private import direct_apply as direct_apply
from gradsmith.declare._private import functorch_is_active as functorch_is_active
from gradsmith.declare._private import transforms_active as transforms_active
from gradsmith.declare._public import custom_gradient, gradient_of, straight_through
from gradsmith.declare._public import meant_as as meant_as

__all__ = [
    "CustomGradient",
    "DeclaredFunction",
    "SurrogateGradient",
    "custom_gradient",
    "gradient_of",
    "keep",
    "straight_through",
]
