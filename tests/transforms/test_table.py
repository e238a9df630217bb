"""Every case under every variant: the declared gradient by value, or the refusal that its case announces."""

from dataclasses import replace

import pytest
import torch

from tests.transforms.cases import CASES, Case
from tests.transforms.expected import as_tuple
from tests.transforms.group import Variant, missing_compiler
from tests.transforms.variants import VARIANTS

CELLS = [
    pytest.param(case, variant, id=f"{case.name}-{variant.name}", marks=[pytest.mark.slow] if variant.slow else [])
    for variant in VARIANTS
    for case in CASES
]


@pytest.mark.parametrize(("case", "variant"), CELLS)
def test_cell(case: Case, variant: Variant, record_property):
    def outcome(kind: str, reason: str = "") -> None:
        record_property("cell", [case.name, variant.name, kind, reason])

    if reason := variant.skip_reason(case):
        outcome("skipped", reason)
        pytest.skip(reason)
    if "inductor" in variant.tags and (reason := missing_compiler()):
        outcome("no compiler", reason)
        pytest.skip(reason)

    torch._dynamo.reset()
    if refusal := variant.refusal(case):
        with pytest.raises(refusal.error, match=refusal.message):
            variant.run(case)
        outcome("refused", refusal.reason)
    else:
        variant.run(case)
        outcome("right")


# The tests of the tests: a variant that would accept a wrong number proves nothing. ------------------------------

NAMED = {case.name: case for case in CASES}
PROBES = [NAMED[n] for n in ("declared: not the derivative", "declared: two inputs and an option", "split_and_scale")]


def notices(wrong: str, variant: Variant) -> bool:
    """Whether the variant looks at what is made wrong. (An inductor row runs the same function as its neighbour.)"""
    blind = {"inductor", "empty"} | ({"forward only"} if wrong == "gradient" else set())
    return blind.isdisjoint(variant.tags)


@pytest.mark.parametrize(
    ("wrong", "variant"),
    [pytest.param(w, v, id=f"{w}-{v.name}") for w in ("forward", "gradient") for v in VARIANTS if notices(w, v)],
)
def test_variant_notices(wrong: str, variant: Variant):
    case = next(case for case in PROBES if variant.skip_reason(case) is None)
    formula = getattr(case, wrong)
    mutated = replace(
        case, **{wrong: lambda *args, **options: tuple(1.25 * v for v in as_tuple(formula(*args, **options)))}
    )
    torch._dynamo.reset()
    with pytest.raises(AssertionError, match="not close"):
        variant.run(mutated)
