"""The private PyTorch that `gradsmith.declare` relies on is still there and still does what is assumed.

Each test fails with words that say what moved. Nothing else needs to change for a new release of torch.
"""

import importlib
import re
from pathlib import Path

import pytest
import torch
import torch.autograd.forward_ad as fwd
from torch.autograd import Function

import gradsmith.declare
from gradsmith.declare import _private as private

NAMES = {
    "torch._C._are_functorch_transforms_active": "whether a torch.func transform runs",
    "torch._C._is_any_autocast_enabled": "whether autocast is on for any device",
    "torch._C._set_fwd_grad_enabled": "forward mode recorded again, where checked code left it off",
    "torch._C._is_fwd_grad_enabled": "whether forward mode records",
    "torch._C._get_tracing_state": "whether torch.jit.trace runs",
    "torch._C._set_grad_enabled": "what torch.no_grad calls, which the escape watch listens to",
    "torch._C.DisableTorchFunction": "no TorchFunctionMode sees a call",
    "torch._C._functorch.unwrap_if_dead": "a wrapper of an ended transform, opened",
    "torch._C._functorch.is_functorch_wrapped_tensor": "whether a tensor belongs to a transform",
    "torch._C._functorch.is_gradtrackingtensor": "whether it belongs to one that differentiates",
    "torch._C._functorch.is_legacy_batchedtensor": "whether it is a batch of is_grads_batched",
    "torch._C._functorch._set_vmap_fallback_warning_enabled": "no warning that a batch is a loop",
    "torch._C._functorch.get_unwrapped": "the tensor a transform wraps",
    "torch._dynamo.assume_constant_result": "a call torch.compile makes while it traces",
    "torch._subclasses.fake_tensor.fake_tensor_tls.allow_non_fake_inputs_override": "real tensors in a fake trace",
    "torch._library.custom_ops.OPDEFS": "the definition behind an operator",
    "torch._C._dispatch_get_all_op_names": "the operators a package registers",
    "torch._C._dispatch_has_kernel_for_dispatch_key": "whether an operator has a gradient",
    "torch._ops.OpOverload": "an operator of torch.ops",
    "torch._ops.OpOverloadPacket": "an operator of torch.ops, all overloads",
    "torch.library.CustomOpDef": "what torch.library.custom_op returns",
    "torch.autograd.forward_ad._current_level": "the forward-mode level, -1 outside",
    "torch.autograd.forward_ad._set_fwd_grad_enabled": "forward mode on, where a jvp turned it off",
    "torch._C._dynamo.eval_frame.set_eval_frame": "a recorder that torch.compile does not look at",
    "torch._C._dynamo.eval_frame.set_code_exec_strategy": "the same",
    "torch._C._dynamo.eval_frame._FrameExecStrategy": "the same",
    "torch._C._dynamo.eval_frame._FrameAction": "the same",
    "torch._is_functional_tensor": "a tensor of a trace, which holds no values to record",
    "torch._subclasses.fake_tensor.FakeTensor": "the same",
    "torch.autograd.function._SingleLevelFunction": "where a recorder meets every call of a Function",
    "torch.utils._python_dispatch._disable_current_modes": "no mode of a recorded program sees its tensors copied",
    "torch.compiler.is_dynamo_compiling": "whether torch.compile traces",
    "torch.fx.experimental.proxy_tensor.get_proxy_mode": "whether make_fx or torch.export records",
    "torch.Tensor._version": "the count of writes to a tensor",
    "torch.Tensor._is_view": "whether a tensor is a view",
}


class Double(Function):
    @staticmethod
    def forward(ctx, x):
        return 2 * x

    @staticmethod
    def backward(ctx, grad):
        return 3 * grad


def find(path):
    parts = path.split(".")
    for length in range(len(parts) - 1, 0, -1):
        try:
            found = importlib.import_module(".".join(parts[:length]))
        except ImportError:
            continue
        for part in parts[length:]:
            found = getattr(found, part)
        return found
    raise AttributeError(path)


@pytest.mark.parametrize(("path", "purpose"), NAMES.items(), ids=NAMES.keys())
def test_the_name_is_there(path, purpose):
    try:
        find(path)
    except AttributeError:
        pytest.fail(f"torch {torch.__version__} has no {path} any more; gradsmith needs another way to tell {purpose}")


def test_every_private_name_in_the_source_is_listed_above():
    source = "".join(p.read_text() for p in Path(gradsmith.declare.__file__).parent.glob("*.py"))
    used = set(re.findall(r"(?:torch\._C|_functorch|forward_ad|fake_tensor_tls|torch\._dynamo)\.(\w+)", source))
    used -= {"unpack_dual", "make_dual", "dual_level", "exit_dual_level"}  # public
    listed = {path.rsplit(".", 1)[1] for path in NAMES}
    missing = used - listed
    assert not missing, f"add {sorted(missing)} to NAMES, with a test of what is assumed"


def test_transforms_are_seen():
    assert not private.functorch_is_active()
    assert torch.func.vmap(lambda x: x + private.functorch_is_active())(torch.zeros(2)).tolist() == [1, 1], (
        "_are_functorch_transforms_active is false under vmap"
    )
    assert not private.transforms_active()


def test_the_forward_mode_level_is_seen():
    assert fwd._current_level == -1, "outside, forward_ad._current_level is no longer -1"
    with fwd.dual_level():
        assert fwd._current_level == 0, "forward_ad._current_level no longer counts levels"
        assert private.transforms_active()
    seen = []
    torch.func.jvp(lambda x: seen.append(fwd._current_level) or x, (torch.ones(2),), (torch.ones(2),))
    assert seen == [0], "torch.func.jvp no longer enters a level of torch.autograd.forward_ad"


def test_autocast_is_seen():
    assert not private.any_autocast_enabled()
    with torch.autocast("cpu", torch.bfloat16):
        assert private.any_autocast_enabled()
    with torch.autocast("cpu", enabled=False):
        assert not private.any_autocast_enabled()


def test_wrappers_are_opened():
    opened = []

    def look(x):
        functorch = torch._C._functorch
        opened.append(functorch.is_functorch_wrapped_tensor(x))
        opened.append(functorch.is_gradtrackingtensor(x))
        opened.append(functorch.get_unwrapped(x) is not x)
        return x.sum()

    torch.func.grad(look)(torch.ones(2))
    assert opened == [True, True, True], "torch._C._functorch no longer tells or opens the tensors of torch.func.grad"
    plain = torch.ones(2)
    assert torch._C._functorch.unwrap_if_dead(plain) is plain
    assert not torch._C._functorch.is_functorch_wrapped_tensor(plain)


def test_the_batch_of_is_grads_batched_is_known():
    seen = []

    class Probe(Double):
        @staticmethod
        def backward(ctx, grad):
            seen.append(torch._C._functorch.is_legacy_batchedtensor(grad))
            return 3 * grad

    x = torch.ones(2, requires_grad=True)
    torch.autograd.grad(Probe.apply(x), x, torch.eye(2), is_grads_batched=True)
    torch.autograd.grad(Probe.apply(x).sum(), x)
    assert seen == [True, False], "is_grads_batched no longer runs on legacy batched tensors"


def test_the_wrapper_of_an_ended_transform_is_dead():
    kept = []
    torch.func.grad(lambda x: kept.append(x) or x.sum())(torch.ones(2))
    alive = torch._C._functorch.unwrap_if_dead(kept[0])
    assert not torch._C._functorch.is_functorch_wrapped_tensor(alive), "unwrap_if_dead no longer opens dead wrappers"


def test_direct_apply_is_the_same_function():
    x = torch.ones(2, requires_grad=True)
    y = private.direct_apply(Double)(x)
    y.sum().backward()
    assert y.tolist() == [2, 2]
    assert x.grad.tolist() == [3, 3], "the apply below Function.apply no longer records the backward"


def test_an_alias_of_an_input_may_be_an_output():
    """`x.detach()` inside a Function's forward: no copy, one version counter, writable later."""

    class Alias(Function):
        @staticmethod
        def forward(ctx, x):
            return x.detach()

        @staticmethod
        def backward(ctx, grad):
            return 3 * grad

    x = torch.ones(2, requires_grad=True)
    between = x * 1
    y = Alias.apply(between)
    assert y.data_ptr() == between.data_ptr(), "an alias returned by forward is now copied"
    before = between._version
    y.mul_(2)
    assert between._version == before + 1, "an alias no longer shares the version counter"
    y.sum().backward()
    assert x.grad.tolist() == [6, 6]


def test_versions_count_writes_through_every_alias():
    x = torch.ones(2)
    for write in (lambda: x.add_(1), lambda: x[0].add_(1), lambda: x.detach().add_(1), lambda: torch.mul(x, 2, out=x)):
        before = x._version
        write()
        assert x._version > before, "Tensor._version no longer counts every write"


def test_a_view_made_without_grad_is_known_as_one():
    with torch.no_grad():
        assert torch.ones(2)[:1]._is_view()
        assert torch.ones(2).view(2)._is_view()


def test_no_grad_is_heard_by_a_torch_function_mode():
    heard = []

    class Listen(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            heard.append((func.__name__, *[a for a in args if isinstance(a, bool)]))
            return func(*args, **(kwargs or {}))

    with Listen(), torch.no_grad():
        pass
    assert heard == [("_set_grad_enabled", False), ("_set_grad_enabled", True)], (
        "torch.no_grad no longer calls torch._C._set_grad_enabled where a TorchFunctionMode hears it"
    )
    heard.clear()
    with Listen(), torch._C.DisableTorchFunction():
        torch.ones(2) + 1
    assert heard == [], "torch._C.DisableTorchFunction no longer keeps calls from a TorchFunctionMode"


def test_a_custom_jvp_runs_with_forward_mode_off():
    """Which is why nested jvps of a Function are zero, unless it is turned on again on unpacked tensors."""
    seen = []

    class Probe(Function):
        @staticmethod
        def forward(x):
            return x * x

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_forward(*inputs)

        @staticmethod
        def jvp(ctx, tangent):
            seen.append(torch._C._is_fwd_grad_enabled())
            with fwd._set_fwd_grad_enabled(True):
                seen.append(torch._C._is_fwd_grad_enabled())
                primal = fwd.unpack_dual(ctx.saved_tensors[0], level=0).primal
                return 2 * primal * tangent

    one = torch.ones(2)
    slope = lambda x: torch.func.jvp(Probe.apply, (x,), (one,))[1]  # noqa: E731
    _, curvature = torch.func.jvp(slope, (3 * one,), (one,))
    assert seen[:2] == [False, True], "a custom jvp now runs with forward mode on: gradsmith need not turn it on"
    assert curvature.tolist() == [2, 2], "turning forward mode on inside a jvp no longer gives second tangents"


def test_tracing_is_seen():
    seen = []
    torch.fx.experimental.proxy_tensor.make_fx(lambda x: seen.append(private.being_traced()) or x + 1)(torch.ones(2))
    torch.jit.trace(lambda x: seen.append(private.being_traced()) or x + 1, torch.ones(2), check_trace=False)
    assert seen == [True, True]
    assert not private.being_traced()


def test_compile_runs_constants_while_it_traces_and_leaves_nodes_whole():
    """assume_constant_result and allow_in_graph; and real tensors are let into a fake trace."""
    torch._dynamo.reset()
    constant, calls = torch.full((2,), 5.0), []

    @private.constant_while_tracing
    def number():
        calls.append(0)
        return len(calls)

    @private.one_node_while_tracing
    def node(x):
        with private.real_constants_allowed():
            return x * constant

    assert torch._subclasses.fake_tensor.fake_tensor_tls.allow_non_fake_inputs_override is None
    compiled = torch.compile(lambda x: node(x) + number(), backend="aot_eager", fullgraph=True)
    assert compiled(torch.ones(2)).tolist() == [6.0, 6.0]
    traced = len(calls)
    compiled(torch.ones(2))
    assert len(calls) == traced, "assume_constant_result now calls on every run"
    assert torch._subclasses.fake_tensor.fake_tensor_tls.allow_non_fake_inputs_override is None


def test_a_node_knows_its_function_class():
    node = Double.apply(torch.ones(2, requires_grad=True)).grad_fn
    assert private.function_class_of(node) is Double, "a graph node no longer has _forward_cls"
    assert private.function_class_of((torch.ones(2, requires_grad=True) * 2).grad_fn) is None


def test_a_custom_op_is_taken_apart():
    @torch.library.custom_op("gradsmith_private::twice", mutates_args={"out"})
    def twice(x: torch.Tensor, out: torch.Tensor, times: int) -> None:
        out.copy_(times * x)

    facts = private.operator_facts(twice)
    assert facts.name == "gradsmith_private::twice"
    assert (facts.mutates, facts.tensors) == (["out"], ["x", "out"])
    assert set(facts.parts) == {"forward"}
    assert isinstance(torch.ops.gradsmith_private.twice, private.OPERATORS)
    assert private.operator_definition(torch.ops.gradsmith_private.twice) is twice
    assert private.operator_definition(torch.ops.gradsmith_private.twice.default) is twice
    assert private.operator_definition(torch.ops.aten.add) is torch.ops.aten.add
