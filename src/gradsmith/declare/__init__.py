"""Declare a gradient once; every transform follows from the declaration."""

from gradsmith.declare._declared import CustomGradient, DeclaredFunction, SurrogateGradient
from gradsmith.declare._forward import keep
from gradsmith.declare._private import being_traced as being_traced
from gradsmith.declare._private import direct_apply as direct_apply
from gradsmith.declare._private import untransformed as untransformed
from gradsmith.declare._public import custom_gradient, gradient_of, straight_through

__all__ = [
    "CustomGradient",
    "DeclaredFunction",
    "SurrogateGradient",
    "custom_gradient",
    "gradient_of",
    "keep",
    "straight_through",
]
