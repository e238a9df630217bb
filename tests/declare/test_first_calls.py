"""The first call looks for what the author may not have meant. It must do no harm wherever it happens."""

import subprocess
import sys

import pytest

SCRIPT = """
import torch, gradsmith as gs
from torch.func import grad, hessian, jvp

own = gs.custom_gradient(lambda x: x * 1)
own.backward(lambda grad: 0.5 * grad)
FUNCTIONS = {
    "own": own,
    "scale_gradient": lambda x: gs.scale_gradient(x, 0.5),
    "split_and_scale": lambda x: gs.split_and_scale(x)[0] / 4,
    "straight_through": lambda x, through=gs.straight_through(torch.round): through(x) / 2,
}


def f(x):
    print(end="")  # breaks the graph
    return FUNCTIONS[NAME](x**2).sum()


compiled = lambda f: torch.compile(f, backend="aot_eager")
x = torch.tensor([1.0, 2.0])
print(WAY().tolist())
"""


@pytest.mark.parametrize(
    ("way", "expected"),
    [
        ("lambda: compiled(grad(f))(x)", [1.0, 2.0]),
        ("lambda: grad(compiled(f))(x)", [1.0, 2.0]),
        ("lambda: compiled(hessian(f))(x)", [[1.0, 0.0], [0.0, 1.0]]),
        ("lambda: compiled(lambda x: jvp(f, (x,), (x,))[1])(x)", 5.0),
    ],
)
@pytest.mark.parametrize(
    "name",
    [
        "own",
        *[pytest.param(n, marks=pytest.mark.slow) for n in ("scale_gradient", "split_and_scale", "straight_through")],
    ],
)
def test_after_a_graph_break(name, way, expected):
    script = SCRIPT.replace("NAME", repr(name)).replace("WAY()", f"({way})()")
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == str(expected), done.stderr[-2000:]
