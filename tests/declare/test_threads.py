"""One declared function in several threads at once.

Forward mode is left out: torch keeps one level for all threads, so plain functions fail there as well.
"""

import sys
import threading

import pytest
import torch
import torch.autograd.forward_ad as fwd
from torch.func import grad, jacrev, vmap
from torch.testing import assert_close

import gradsmith as gs
from tests.declare.helpers import declared, second

THREADS, ROUNDS = 3, 20


@pytest.fixture(autouse=True)
def switch_often():
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


def in_threads(work):
    """Run `work(number)` in every thread and raise what the first one raised."""
    errors, start = [], threading.Barrier(THREADS)

    def run(number):
        try:
            start.wait()
            for _ in range(ROUNDS):
                work(number)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(i,)) for i in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


def cases():
    with_keep = declared(
        lambda grad, x, fourth: 5 * fourth * grad, lambda x: gs.keep(x**3, fourth=x**4), keep=["fourth"]
    )
    return [declared(lambda grad, x: 5 * x**4 * grad), with_keep, gs.gradient_of(lambda x: x**5)(lambda x: x**3)]


@pytest.mark.parametrize("f", cases(), ids=["input", "intermediate", "gradient_of"])
def test_the_same_function(f):
    """From the first call on, which is the one that is checked."""

    def work(number):
        x = torch.full((3,), 1.0 + number, dtype=torch.float64, requires_grad=True)
        y = f(x)
        y.sum().backward()
        assert_close(y.detach(), x.detach() ** 3)
        assert_close(x.grad, 5 * x.detach() ** 4)
        assert_close(second(f, x), 20 * x.detach() ** 3)
        assert_close(vmap(grad(f))(x.detach()), 5 * x.detach() ** 4)
        assert_close(jacrev(grad(lambda x: f(x).sum()))(x.detach()).diagonal(), 20 * x.detach() ** 3)

    in_threads(work)


def test_one_graph_backward_in_other_threads():
    f = cases()[0]

    def work(number):
        x = torch.full((3,), 1.0 + number, dtype=torch.float64, requires_grad=True)
        y = f(x).sum()
        thread = threading.Thread(target=y.backward)
        thread.start()
        thread.join()
        assert_close(x.grad, 5 * x.detach() ** 4)

    in_threads(work)


def test_no_grad_is_of_its_thread():
    f = cases()[0]

    def work(number):
        x = torch.full((3,), 1.0 + number, dtype=torch.float64, requires_grad=True)
        with torch.set_grad_enabled(number == 0):
            y = f(x)
        assert y.requires_grad == (number == 0)

    in_threads(work)


def test_forward_mode_in_one_thread_and_backward_in_another():
    f = cases()[0]
    x = torch.full((3,), 2.0, dtype=torch.float64, requires_grad=True)
    with fwd.dual_level():
        dual = fwd.make_dual(x.detach(), torch.ones_like(x))
        thread = threading.Thread(target=lambda: f(x).sum().backward())
        thread.start()
        thread.join()
        assert_close(fwd.unpack_dual(f(dual)).tangent, 5 * x.detach() ** 4)
    assert_close(x.grad, 5 * x.detach() ** 4)
