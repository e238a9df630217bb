"""Faulty text is found by the source rules; correct text that looks like it is not."""

from __future__ import annotations

import textwrap
from typing import Any

import pytest

from gradsmith.check._example import run_example
from gradsmith.check._observation import Observation
from tests.check.source_text import codes, function, judge

# in place ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "body",
    [
        "g *= 2\nreturn g",
        "g[0] = 0\nreturn g",
        "g[..., 1:] *= 0.5\nreturn g",
        "return g.mul_(2)",
        "return g.view(-1).mul_(2).view_as(g)",
        "h = g.reshape(-1)\nh += 1\nreturn h",
        "h = g.float()\nh.clamp_(-1, 1)\nreturn h",
        "h = g.to(g.dtype).contiguous()\nh.clamp_(-1, 1)\nreturn h",
        "torch.mul(g, 2, out=g)\nreturn g",
        "F.relu(g, inplace=True)\nreturn g",
        "torch.relu_(g)\nreturn g",
        "a = g.detach().numpy()\na *= 2\nreturn g",
        "np.multiply(g.numpy(), 2, out=g.numpy())\nreturn g",
        "if not g.is_contiguous():\n    g = g.contiguous()\ng.mul_(2)\nreturn g",
        "for row in g:\n    row.mul_(2)\nreturn g",
        "a, b = g.chunk(2)\na.neg_()\nreturn torch.cat([a, b])",
        "if g is None:\n    g = torch.zeros(3)\ng.add_(1)\nreturn g",
        "with torch.no_grad():\n    g.data.mul_(2)\nreturn g",
        "g.data = 2 * g\nreturn g",
        "return g.masked_fill_(g > 1, 1)",
    ],
)
def test_a_write_to_the_gradient(body):
    assert codes(body, "return x.sin()") == ["GS901"]


def test_a_write_to_one_of_many_gradients():
    assert codes("g, = grads\ng.mul_(2)\nreturn g", "return 2 * x", grads="*grads") == ["GS901"]
    assert codes("[g.mul_(2) for g in grads]\nreturn grads", "return 2 * x", grads="*grads") == ["GS901"]
    assert codes("torch._foreach_mul_(grads, 2)\nreturn grads", "return 2 * x", grads="*grads") == ["GS901"]
    fresh = "grads = list(grads)\ngrads[0] = grads[0].clone()\ngrads[0].mul_(2)\nreturn tuple(grads)"
    assert codes(fresh, "return 2 * x", grads="*grads") == []


@pytest.mark.parametrize(
    "body",
    [
        "x, = ctx.saved_tensors\nx.exp_()\nreturn g * x",
        "x = ctx.saved_tensors[0]\nx *= 2\nreturn g * x",
        "saved = ctx.saved_tensors\nsaved[0].mul_(2)\nreturn g * saved[0]",
        "(x,) = ctx.saved_tensors\nx[x < 0] = 0\nreturn g * x",
        "x, *_ = ctx.saved_tensors\nreturn x.data.exp_() * g",
    ],
)
def test_a_write_to_a_saved_tensor(body):
    assert codes(body) == ["GS902"]


def test_a_write_hidden_from_autograd_says_so():
    found = judge(function("x, = ctx.saved_tensors\nreturn x.data.exp_() * g"))
    assert [bool(f.diagnosis) for f in found if f.rule == "GS902"] == [True]


@pytest.mark.parametrize(
    ("forward", "expected"),
    [
        ("x.mul_(2)\nreturn x.clone()", ["GS903"]),
        ("x = x.contiguous()\nx += 1\nreturn x * 1", ["GS903"]),
        ("ctx.mark_dirty(x)\nx.mul_(2)\nreturn x", []),
        ("ctx.mark_dirty(x)\nreturn x.mul_(2)", []),
        ("x = x.clone()\nx += 1\nreturn x", []),
        ("y = x.detach().clone()\ny[0] = 0\nreturn y", []),
        ("y = torch.empty_like(x)\ny.copy_(x)\nreturn y", []),
        ("out = x.new_zeros(3)\nout.add_(x)\nreturn out", []),
    ],
)
def test_a_write_to_an_input(forward, expected):
    assert codes("return 2 * g", forward) == expected


def test_a_running_statistic_may_be_written():
    forward = "running.mul_(0.9).add_(x.mean(0), alpha=0.1)\nreturn x * 2"
    assert codes("return 2 * g, None", forward, params="x, running") == []


# ctx --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("forward", "params", "backward", "expected"),
    [
        ("ctx.x = x\nreturn x.exp()", "x", "return g * ctx.x.exp()", ["GS904"]),
        ("y = x.exp()\nctx.y = y\nreturn y", "x", "return g * ctx.y", ["GS904"]),
        ("ctx.kept = (x, n)\nreturn x * n", "x, n", "return g * ctx.kept[1], None", ["GS904"]),
        ("ctx.n = n\nreturn x * n", "x, n", "return g * ctx.n, None", []),
        ("ctx.shape = x.shape\nreturn x.sum(0)", "x", "return g.expand(ctx.shape)", []),
        ("ctx.dims, ctx.eps = x.dim(), eps\nreturn x * eps", "x, eps", "return g * ctx.eps, None", []),
        ("w = float(w)\nctx.w = w\nreturn x * w", "x, w", "return g * ctx.w, None", []),
        (
            "if isinstance(w, float):\n    ctx.w = w\nelse:\n    ctx.save_for_backward(w)\nreturn x * w",
            "x, w",
            "w = ctx.w if hasattr(ctx, 'w') else ctx.saved_tensors[0]\nreturn g * w, None",
            [],
        ),
    ],
)
def test_what_is_kept_on_ctx(forward, params, backward, expected):
    assert codes(backward, forward, params=params) == expected


def test_what_was_seen_on_ctx_decides():
    seen = Observation("ctx", data={"attributes": [{"name": "mask", "kind": "intermediate"}]})
    nothing = Observation("ctx", data={"attributes": []})
    masked = function("return g * ctx.mask", "ctx.mask = x > 0\nreturn x.relu()")
    assert judge(masked) == []
    assert [(f.rule, "intermediate" in f.message) for f in judge(masked, seen)] == [("GS904", True)]
    assert judge(function("return g * ctx.x", "ctx.x = x\nreturn x"), nothing) == []


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("x = ctx.saved_tensors[0]\nn = ctx.saved_tensors[1]\nreturn g * x * n", ["GS909"]),
        ("return g * ctx.saved_tensors[0] * ctx.saved_tensors[1]", ["GS909"]),
        ("if g.dim():\n    x, n = ctx.saved_tensors\nelse:\n    x, n = ctx.saved_tensors\nreturn g * x * n", []),
        ("if g.dim():\n    x, n = ctx.saved_tensors\n    return g * x * n\nx, _ = ctx.saved_tensors\nreturn g * x", []),
        ("x = ctx.saved_tensors[0] if g.dim() else ctx.saved_tensors[1]\nreturn g * x", []),
        ("saved = ctx.saved_tensors\nreturn g * saved[0] * saved[1]", []),
        ("x, n = ctx.saved_tensors\nreturn g * x", ["GS910"]),
        ("x, _ = ctx.saved_tensors\nreturn g * x", ["GS910"]),
        ("x, n = ctx.saved_tensors\nreturn (g * x).expand(n.shape)", []),
        ("x, n = ctx.saved_tensors\nreturn g * x if n is None else g", []),
        ("x, n = ctx.saved_tensors\nh = lambda t: t * n\nreturn h(g * x)", []),
        ("raise NotImplementedError", []),
    ],
)
def test_how_saved_tensors_are_read(body, expected):
    assert codes(body, "ctx.save_for_backward(x, x)\nreturn x * 2") == expected


# the second derivative --------------------------------------------------------------------------------------------

CUTS = {
    "gradient": "x, = ctx.saved_tensors\nreturn g.detach() * x.exp()",
    "saved": "x, = ctx.saved_tensors\nreturn g * x.data.exp()",
    "number": "x, = ctx.saved_tensors\nreturn g * float(x)",
}


@pytest.mark.parametrize(
    ("which", "status", "found"),
    [
        ("gradient", None, True),
        ("saved", None, False),
        ("saved", "silent", True),
        ("saved", "wrong", True),
        ("saved", "right", False),
        ("gradient", "refused", False),
        ("number", "wrong", True),
    ],
)
def test_a_cut_graph_is_a_fault_where_the_second_derivative_is_wrong(which, status, found):
    seen = [Observation("second order", data={"status": status})] if status else []
    assert [f.rule for f in judge(function(CUTS[which]), *seen)] == ["GS906"] * found


# state ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("forward", "backward", "expected"),
    [
        ("Subject.x = x\nreturn x.exp()", "return g * Subject.x.exp()", ["GS908"]),
        ("Subject.n = x.shape[0]\nreturn x.sum(0)", "return g.expand(Subject.n)", ["GS908"]),
        ("global LAST\nLAST = x\nreturn x.exp()", "return g * LAST.exp()", ["GS908"]),
        ("TABLE['x'] = x\nreturn x.exp()", "return g * TABLE['x'].exp()", ["GS908"]),
        ("STACK.append(x)\nreturn x.exp()", "return g * STACK.pop().exp()", ["GS908"]),
        ("return 2 * x", "Subject.old = 0.9 * Subject.old + 2 * g\nreturn Subject.old", ["GS908"]),
        ("STACK.append(x.norm())\nreturn 2 * x", "return 2 * g", []),
        ("Subject.calls += 1\nreturn 2 * x", "return 2 * g", []),
        ("Subject.seen = x.shape\nreturn 2 * x", "return 2 * g", []),
        ("n = x.shape[-1]\nif n not in TABLE:\n    TABLE[n] = torch.eye(n)\nreturn x @ TABLE[n]",
         "return g @ TABLE[g.shape[-1]]", []),
        ("return x * Subject.slope", "return g * Subject.slope", []),
    ],
)  # fmt: skip
def test_state_between_passes(forward, backward, expected):
    assert codes(backward, forward) == expected


def test_seeds_and_switches():
    assert codes("return g", "torch.manual_seed(0)\nreturn x + 0 * torch.rand(3)") == ["GS911"]
    assert codes("return g", "with torch.random.fork_rng():\n    torch.manual_seed(0)\n    return x + 1") == []
    assert codes("return g", "torch.set_default_dtype(torch.float64)\nreturn x + 1") == ["GS911"]
    kept = "torch.set_default_dtype(torch.float64)\ny = x + 1\ntorch.set_default_dtype(torch.float32)\nreturn y"
    assert codes("return g", kept) == []


# correct code that looks like a fault -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "body",
    [
        "x, = ctx.saved_tensors\ngrad = g.clone()\ngrad[x < 0] = 0\nreturn grad",
        "x, = ctx.saved_tensors\ngrad = torch.zeros_like(x)\ngrad.scatter_add_(0, x.long(), g)\nreturn grad",
        "x, = ctx.saved_tensors\ngrad = g * x\ngrad *= 2\nreturn grad",
        "x, = ctx.saved_tensors\ng = g * 1.0\ng[x > 1] = 0\nreturn g",
        "x, = ctx.saved_tensors\nreturn torch.where(x > 0, g, 0.1 * g)",
        "x, = ctx.saved_tensors\nmask = x.detach() > 0\nreturn g * mask",
        "x, = ctx.saved_tensors\nx = x + 1\nx *= 2\nreturn g * x",
        "x, = ctx.saved_tensors\nout = torch.empty_like(x)\ntorch.mul(g, x, out=out)\nreturn out",
        "x, = ctx.saved_tensors\nh = g.to(torch.float64)\nh.mul_(2)\nreturn h * x",
        "x, = ctx.saved_tensors\nh = g[x > 0]\nh.mul_(2)\nreturn torch.zeros_like(x).masked_scatter(x > 0, h)",
        "x, = ctx.saved_tensors\ntotal = 0\nfor row in g:\n    total = total + row\nreturn total * x",
        "x, = ctx.saved_tensors\nacc = torch.zeros_like(x)\nfor row in g.unbind(0):\n    acc += row\nreturn acc",
        "x, = ctx.saved_tensors\ngrads = [g, g]\ngrads[0] = g * x\nreturn grads[0]",
        "x, = ctx.saved_tensors\ng = g.contiguous()\nreturn g * x",
        "x, = ctx.saved_tensors\nif g.abs().max().item() == 0:\n    return torch.zeros_like(x)\nreturn g * x",
        "x, = ctx.saved_tensors\ntry:\n    return torch.linalg.solve(x, g)\nexcept torch.linalg.LinAlgError:\n"
        "    return torch.zeros_like(x)",
        "x, = ctx.saved_tensors\ng = g.clone() if g.dim() else g * 1\ng.mul_(2)\nreturn g * x",
        "x, = ctx.saved_tensors\nwith torch.enable_grad():\n    y = x.detach().requires_grad_()\n    z = y.exp()\n"
        "return torch.autograd.grad(z, y, g)[0]",
        "x, = ctx.saved_tensors\nif not ctx.needs_input_grad[0]:\n    return None\nreturn g * x.exp()",
        "x, = ctx.saved_tensors\nassert g.shape == x.shape\nreturn g * x.exp()",
        "x, = ctx.saved_tensors\ng = g.contiguous()\nassert g.is_contiguous()\nreturn g * x.exp()",
        "x, = ctx.saved_tensors\nsteps = []\nsteps.append(g * x)\nreturn steps.pop()",
        "x, = ctx.saved_tensors\nn = 1\nn *= x.shape[0]\nreturn g * x / n",
        "x, = ctx.saved_tensors\ny = x.exp()\ny.mul_(g)\nreturn y",
    ],
)
def test_nothing_on_correct_code(body):
    assert codes(body) == []


# form -------------------------------------------------------------------------------------------------------------


def module(text: str) -> Any:
    source = "import torch\n\nclass Subject(torch.nn.Module):\n" + textwrap.indent(text, "    ")
    return run_example(source, "test module")["Subject"]()


FORWARD = "def forward(self, x):\n    return x.tanh()\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (FORWARD + "def backward(self, g):\n    return g.clamp(-1, 1)\n", ["GS905"]),
        (FORWARD + "def backward(self, loss):\n    loss.backward()\n", []),
        (FORWARD + "def backward(self):\n    return 1\n", []),
        ("def forward(self, x):\n    x.register_hook(self.backward)\n    return x.tanh()\n"
         "def backward(self, g):\n    return g\n", []),
        ("def forward(self, x):\n    self.last = x\n    x = x.clone()\n    x *= 2\n    return x\n", []),
    ],
)  # fmt: skip
def test_a_module_with_a_backward(text, expected):
    assert [f.rule for f in judge(module(text))] == expected


@pytest.mark.parametrize(
    ("backward", "expected"),
    [
        ("gx = gn = None\nif ctx.needs_input_grad[1]:\n    gx = g\nreturn gx, gn", ["GS920"]),
        ("gx = gn = None\nif ctx.needs_input_grad[0]:\n    gx = g\nif ctx.needs_input_grad[1]:\n    gn = g\n"
         "return gx, gn", []),
        ("gx = gn = None\nif ctx.needs_input_grad[0] or ctx.needs_input_grad[1]:\n    gx = gn = g\nreturn gx, gn", []),
        ("gx = gn = None\nif any(ctx.needs_input_grad):\n    gx = g\n    gn = g\nreturn gx, gn", []),
    ],
)  # fmt: skip
def test_which_input_needs_a_gradient(backward, expected):
    assert codes(backward, "return x + n", params="x, n") == expected


def test_unmaterialised_gradients():
    forward = "ctx.set_materialize_grads(False)\nreturn x.sin(), x.cos()"
    assert codes("return a + b", forward, grads="a, b") == ["GS921"]
    assert codes("if a is None:\n    return b\nif b is None:\n    return a\nreturn a + b", forward, grads="a, b") == []
    assert codes("return sum(t for t in (a, b) if t is not None)", forward, grads="a, b") == []
    single = "ctx.set_materialize_grads(False)\nreturn 2 * x"
    assert codes("return 2 * g", single) == []
