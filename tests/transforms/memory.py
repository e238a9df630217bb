"""Everything that stands between a forward and its backward: checkpointing, offloading, saved-tensor hooks, threads."""

from __future__ import annotations

import threading

import torch
from torch import Tensor
from torch.autograd.graph import save_on_cpu, saved_tensors_hooks
from torch.utils.checkpoint import checkpoint

from tests.transforms.cases import Case
from tests.transforms.expected import Expected
from tests.transforms.group import Group, assert_backward, assert_same, caller, leaves

group = Group(
    "Memory and threads",
    "checkpoint, save_on_cpu, saved-tensor hooks, two threads",
)


def checkpointed(case: Case, use_reentrant: bool) -> None:
    inputs = leaves(case)
    expected = Expected(case, inputs)
    values = checkpoint(caller(case), *inputs, use_reentrant=use_reentrant)
    assert_same(values, expected.values)
    torch.autograd.backward(values, expected.weights())
    assert_same([x.grad for x in inputs], expected.gradient(expected.weights()))


group.variant("checkpoint(use_reentrant=True)", True)(checkpointed)
group.variant("checkpoint(use_reentrant=False)", False)(checkpointed)


@group.variant("save_on_cpu")
def saved_on_cpu(case: Case) -> None:
    with save_on_cpu():
        assert_backward(case, leaves(case))


@group.variant("saved-tensor hooks")
def hooks(case: Case) -> None:
    """What was saved goes through the hooks, all of it: the originals are destroyed before the backward."""
    inputs = leaves(case)
    expected = Expected(case, inputs)
    originals: list[Tensor] = []

    def pack(tensor: Tensor) -> object:
        originals.append(tensor)
        return tensor.detach().numpy().copy()

    with saved_tensors_hooks(pack, torch.from_numpy):
        values = caller(case)(*inputs)
    assert_same(values, expected.values)
    for tensor in [*originals, *inputs, *values]:
        tensor.data.fill_(torch.nan)  # .data: past the version counter, which would refuse
    gradients = torch.autograd.grad(values, inputs, expected.weights())
    assert_same(gradients, expected.gradient(expected.weights()))


@group.variant("two threads")
def two_threads(case: Case) -> None:
    failures: list[BaseException] = []
    start = threading.Barrier(2)

    def work(number: int) -> None:
        try:
            start.wait()
            for _ in range(20):
                assert_backward(case, leaves(case, number=number))
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=[number]) for number in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
