"""`gradsmith record`: a command runs as it would, and its calls are kept."""

import os
import signal
import subprocess
import sys
import time

import pytest
from click.testing import CliRunner

import gradsmith as gs
from gradsmith.cli import main
from gradsmith.errors import UsageError
from gradsmith.reach.inputs.record import load_calls
from tests.reach.recording import REPLAY, python, recorded, written

CLIP = """
import torch
class Clip(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, k):
        return x * k
    @staticmethod
    def backward(ctx, grad):
        return grad, None
def call(size):
    return Clip.apply(torch.ones(size, requires_grad=True), size)
"""


@pytest.fixture
def package(tmp_path):
    written(tmp_path / "clipping" / "__init__.py", CLIP)
    return tmp_path


def sizes(folder):
    return [call.args[1] for call in load_calls(folder / ".gradsmith" / "calls")]


def test_input_output_and_exit_code_pass_through(package):
    code = """
    import sys, clipping
    clipping.call(2)
    print(sys.stdin.read().upper(), end="")
    print("to stderr", file=sys.stderr)
    sys.exit(7)
    """
    written(package / "go.py", code)
    run = recorded(sys.executable, "go.py", cwd=package, input="hello")
    assert (run.returncode, run.stdout) == (7, "HELLO")
    assert run.stderr.splitlines() == [
        "to stderr",
        "gradsmith: recorded 1 function, 1 call in .gradsmith/calls; next: gradsmith check clipping",
    ]


@pytest.mark.parametrize("way", ["os._exit(0)", "os.kill(os.getpid(), 9)", "os.abort()"])
def test_what_was_called_before_a_process_dies_is_kept(package, way):
    run = recorded(sys.executable, "-c", f"import os, clipping; clipping.call(3); {way}", cwd=package)
    assert run.returncode == {"os._exit(0)": 0, "os.kill(os.getpid(), 9)": 137, "os.abort()": 134}[way]
    assert sizes(package) == [3]


def test_processes_of_processes_are_recorded(package):
    code = """
    import multiprocessing, subprocess, sys, clipping
    if __name__ == "__main__":
        for way, size in (("spawn", 1), ("fork", 2)):
            worker = multiprocessing.get_context(way).Process(target=clipping.call, args=(size,))
            worker.start()
            worker.join()
        subprocess.run(["sh", "-c", f"{sys.executable} -c 'import clipping; clipping.call(3)'"], check=True)
    """
    written(package / "go.py", code)
    run = recorded(sys.executable, "go.py", cwd=package)
    assert (run.returncode, sizes(package)) == (0, [1, 2, 3]), run.stderr


def test_tests_are_recorded_with_what_they_define_themselves(package):
    text = """
    import torch, clipping
    class Net(torch.nn.Module):
        def forward(self, x):
            return x
    def test_it():
        clipping.Clip.apply(torch.ones(2, requires_grad=True), 1.0)
        try:
            clipping.Clip.apply(torch.ones(2, requires_grad=True), Net())
        except TypeError:
            pass
        Mine.apply(torch.ones(2, requires_grad=True), Net())
    class Mine(clipping.Clip):
        @staticmethod
        def forward(ctx, x, net):
            return net(x) * 1
    """
    written(package / "tests" / "test_clip.py", text)
    words = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:gradsmith", "--import-mode=importlib", "tests"]
    run = recorded(sys.executable, *words, cwd=package, env={**os.environ, "PYTHONPATH": str(package)})
    assert run.returncode == 0, run.stdout + run.stderr
    again = python("-c", REPLAY.replace("[0, 0]", "[0]"), ".gradsmith/calls", cwd=package)
    assert [line.split()[0] for line in again.stdout.splitlines()] == ["clipping:Clip", "tests.test_clip:Mine"], again


def test_the_program_finds_its_own_sitecustomize_and_search_path(package):
    written(package / "own" / "sitecustomize.py", "import sys; sys.own = 'ran'")
    code = """import sys, sitecustomize
print(sys.own, [p for p in sys.path if '_record' in p], 'torch' in sys.modules, sitecustomize.__file__)"""
    environment = {**os.environ, "PYTHONPATH": str(package / "own")}
    run = recorded(sys.executable, "-c", code, cwd=package, env=environment)
    assert run.stdout.strip() == f"ran [] False {package / 'own' / 'sitecustomize.py'}"
    assert "nothing was recorded" in run.stderr


def test_ctrl_c_reaches_the_command_and_what_was_recorded_is_kept(package):
    code = """
    import time, clipping
    clipping.call(2)
    print("ready", flush=True)
    try:
        time.sleep(60)
    except KeyboardInterrupt:
        print("interrupted")
        raise SystemExit(5)
    """
    written(package / "go.py", code)
    command = [sys.executable, "-m", "gradsmith", "record", "--", sys.executable, "go.py"]
    run = subprocess.Popen(
        command, cwd=package, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    assert run.stdout.readline() == "ready\n"
    time.sleep(0.1)
    run.send_signal(signal.SIGINT)
    out, _ = run.communicate(timeout=60)
    assert (run.returncode, out, sizes(package)) == (5, "interrupted\n", [2])


def test_a_command_that_is_none_is_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(main, ["record", "--", "no-such-command"])
    assert result.exit_code == 127
    assert "there is no command 'no-such-command'" in result.output


def test_without_cloudpickle_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "cloudpickle", None)
    with pytest.raises(UsageError, match=r"pip install 'gradsmith\[record\]'"), gs.record():
        pass
