"""A module that uses the operation: copied, pickled, exported, traced."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import torch
from torch import Tensor
from torch.fx.experimental.proxy_tensor import make_fx

from tests.transforms.cases import Case
from tests.transforms.expected import Expected, Tensors, as_tuple, inputs_of
from tests.transforms.group import Group, assert_backward, assert_same, caller, cast, leaves

group = Group(
    "Modules, export and tracing",
    "deepcopy, pickle, torch.export and ONNX of the forward, torch.fx, make_fx",
)


class Using(torch.nn.Module):
    """Holds the operation and its options as attributes."""

    def __init__(self, case: Case) -> None:
        super().__init__()
        self.function = case.function
        self.options = dict(case.options)

    def forward(self, *inputs: Tensor) -> Any:
        result = self.function(*inputs, **self.options)
        return result if isinstance(result, tuple) else (result,)


@group.variant("copy.deepcopy of a module")
def deepcopied(case: Case) -> None:
    assert_backward(case, leaves(case), call=copy.deepcopy(Using(case)))


@group.variant("pickle of a module")
def pickled(case: Case) -> None:
    assert_backward(case, leaves(case), call=pickle.loads(pickle.dumps(Using(case))))


@group.variant("torch.export (forward)", tags=["export", "forward only"])
def exported(case: Case) -> None:
    """The exported program computes the forward; it must do so for other inputs than those it was exported with."""
    program = torch.export.export(Using(case), inputs_of(case, 1))
    inputs = inputs_of(case)
    assert_same(program.module()(*inputs), Expected(case, inputs).values)


@group.variant("ONNX export (forward)", tags=["export", "forward only"])
def exported_to_onnx(case: Case) -> None:
    import onnxruntime

    single = torch.float32
    program = torch.onnx.export(Using(case).eval(), inputs_of(case, 1, single), dynamo=True, verbose=False)
    session = onnxruntime.InferenceSession(program.model_proto.SerializeToString())
    inputs = inputs_of(case, dtype=single)
    names = [i.name for i in session.get_inputs()]
    values = session.run(None, {n: x.numpy() for n, x in zip(names, inputs, strict=True)})
    assert_same([torch.from_numpy(v) for v in values], Expected(case, inputs).values, single)


@group.variant("torch.fx.symbolic_trace")
def symbolically_traced(case: Case) -> None:
    """Tracing with stand-ins for tensors: the operation must end up in the graph, not be traced through or fail."""
    function, options = case.function, dict(case.options)
    of_one, of_two = lambda x: function(x, **options), lambda x, y: function(x, y, **options)
    program = torch.fx.symbolic_trace(of_two if len(case.shapes) == 2 else of_one)
    assert_backward(case, leaves(case), call=lambda *inputs: as_tuple(program(*inputs)))


@group.variant("make_fx of forward and backward")
def traced(case: Case) -> None:
    def step(*inputs: Tensor) -> tuple[Tensors, Tensors]:
        inputs = tuple(x.detach().requires_grad_() for x in inputs)
        values = caller(case)(*inputs)
        return values, torch.autograd.grad(values, inputs, weights)

    inputs = inputs_of(case)
    expected = Expected(case, inputs)
    weights = cast(expected.weights(), torch.float64)
    values, gradients = make_fx(step)(*inputs_of(case, 1))(*inputs)
    assert_same(values, expected.values)
    assert_same(gradients, expected.gradient(weights))
