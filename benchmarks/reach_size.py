"""How long a package of 200 functions takes, and what its parent process keeps: python benchmarks/reach_size.py."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HEAD = "import torch\nfrom torch.autograd import Function\n"
KINDS = {  # forward, what is saved, backward
    "Square": ("x * x", "x", "2 * saved[0] * grad"),
    "Tanh": ("x.tanh()", "x", "(1 - saved[0].tanh() ** 2) * grad"),
    "Round": ("x.round()", "x", "grad"),
    "Spike": ("(x > 0).to(x.dtype)", "x", "grad / (1 + saved[0].abs()) ** 2"),
    "Softmax": ("x.softmax(-1)", "x.softmax(-1)", "saved[0] * (grad - (grad * saved[0]).sum(-1, keepdim=True))"),
    "Reverse": ("x.view_as(x)", "x", "-grad"),
    "Wrong": ("x.exp()", "x.exp()", "saved[0] * grad.mean()"),
    "Norm": (
        "x / x.norm()",
        "x",
        "(grad - saved[0] * (grad * saved[0]).sum() / saved[0].norm() ** 2) / saved[0].norm()",
    ),
}
TEXT = """

class {name}(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward({kept})
        return {forward}

    @staticmethod
    def backward(ctx, grad):
        saved = ctx.saved_tensors
        return {backward}
"""


def write(folder: Path, count: int) -> None:
    """A package with so many functions."""
    package = folder / "many"
    package.mkdir()
    (package / "__init__.py").write_text("")
    for k in range(0, count, len(KINDS)):
        text = HEAD + "".join(
            TEXT.format(name=f"{name}{k}", forward=forward, kept=kept, backward=backward)
            for name, (forward, kept, backward) in list(KINDS.items())[: count - k]
        )
        (package / f"part{k}.py").write_text(text)


def measure(count: int, jobs: int) -> tuple[float, float, int]:
    """Seconds, MiB of the parent at its most, and functions exercised."""
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder), count)
        code = (
            "import resource, sys; from gradsmith.cli import main\n"
            "try: main(sys.argv[1:])\n"
            "finally: print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, file=sys.stderr)"
        )
        command = [sys.executable, "-c", code, "check", "many", "--fast", "--json", "--jobs", str(jobs)]
        started = time.monotonic()
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
        seconds = time.monotonic() - started
        exercised = json.loads(done.stdout)["exercised"]["functions"]
        return seconds, int(done.stderr.split()[-1]) / 1024, exercised


def main() -> None:
    for jobs in (1, 2):
        for count in (50, 200) if jobs == 2 else (50,):
            seconds, most, exercised = measure(count, jobs)
            print(f"{count} functions, {jobs} at once: {seconds:.0f} s, {exercised} exercised, parent {most:.0f} MiB")


if __name__ == "__main__":
    main()
