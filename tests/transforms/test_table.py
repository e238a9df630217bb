"""Every case under every variant: the declared gradient by value, or the refusal that its case announces."""

import pytest
import torch

from tests.transforms.cases import CASES, Case
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
