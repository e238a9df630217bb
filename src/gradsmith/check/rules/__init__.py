"""The rules, one module per family; each is a pure function from observations to findings."""

from gradsmith.check._finding import Rule
from gradsmith.check.rules import higher, incoming, lifetime, numerics, source, state, structure, transforms, value

__all__ = ["RULES"]

RULES: list[Rule] = sorted(
    [
        rule
        for family in (value, incoming, structure, lifetime, higher, transforms, numerics, state, source)
        for rule in family.RULES
    ],
    key=lambda rule: rule.code,
)
