"""`gradsmith check`, `rules` and `explain`, with a check that stands in for the real one."""

import importlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from click.testing import CliRunner, Result

from gradsmith.check._finding import Finding, Rule
from gradsmith.check._observation import Observation, Observations
from gradsmith.check.command._signature import require_names
from gradsmith.check.report._pages import index, page, pages, write_pages
from gradsmith.check.report._report import Report
from gradsmith.cli import main
from gradsmith.errors import UsageError

RULES = [
    Rule(
        "GS203",
        "writes-to-gradient",
        "backward writes into the | incoming gradient",
        "Others hold it too.",
        "Multiply into a new tensor.",
        "subject = bad\ninputs = ()",
        "subject = '```'\ninputs = ()",
        lambda observations: (),
    ),
    Rule("GS101", "wrong-value", "wrong maths", "It trains badly.", "Derive it.", "a", "b", lambda observations: ()),
]
FINDING = Finding("GS101", "The gradient is wrong.", "Mend it.", evidence=("got 1, expected 2",))
SOURCE = """
import torch

class Double(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, eps=1e-5):
        return x * weight
    @staticmethod
    def backward(ctx, grad):
        return grad, grad, None

def double(x, weight):
    return x * 2
"""


class FakeCheck:
    """Keeps what it was called with; prints, and returns or raises what it was told to."""

    def __init__(self) -> None:
        self.findings: list[Finding] = []
        self.error: Exception | None = None
        self.calls: list[tuple] = []

    def __call__(self, subject: object, inputs: tuple, **options: object) -> Report:
        self.calls.append((subject, inputs, options))
        sys.stdout.write("printed by the checked code\n")
        os.write(1, b"and from below\n")
        if self.error:
            raise self.error
        options["progress"](1, 2, "values")
        return Report(Observations([Observation("subject", data={"name": "Double"})]), self.findings)


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> FakeCheck:
    fake = FakeCheck()
    monkeypatch.setattr(importlib.import_module("gradsmith.check"), "check", fake, raising=False)
    return fake


@pytest.fixture(autouse=True)
def rules(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.import_module("gradsmith.check.rules"), "RULES", RULES, raising=False)


@pytest.fixture
def subject(tmp_path: Path):
    path = tmp_path / "gs_command_subject.py"
    path.write_text(SOURCE)
    yield f"{path}::Double"
    sys.modules.pop("gs_command_subject", None)


def invoke(*args: object) -> Result:
    return CliRunner().invoke(main, [str(arg) for arg in args], prog_name="gradsmith")


def refused(*args: object) -> str:
    """The one sentence of a refusal."""
    result = invoke(*args)
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    assert result.stderr.startswith("Error: ")
    assert result.stderr.count("\n") == 1
    return result.stderr[len("Error: ") : -1]


class TestCheck:
    def test_right_ends_with_0(self, fake: FakeCheck, subject: str):
        result = invoke("check", subject, "--input", "3x4", "--input", "4")
        assert result.exit_code == 0
        assert result.stdout.startswith("Nothing wrong found in Double\n")
        assert "printed by the checked code" not in result.stdout

    def test_findings_end_with_1(self, fake: FakeCheck, subject: str):
        fake.findings = [FINDING]
        result = invoke("check", subject, "--input", "3x4")
        assert result.exit_code == 1
        assert "got 1, expected 2" in result.stdout

    def test_what_the_check_is_asked(self, fake: FakeCheck, subject: str):
        function = subject.replace("Double", "double")
        invoke(
            *("check", subject, "--input", "x=3x4", "--input", "4:float64:1..2", "--arg", "eps=1e-3", "--arg", "m=sum"),
            *(
                "--gradient-of",
                function,
                "--reference",
                function,
                "--waive",
                "linearity,GS201",
                "--waive",
                "derivative",
            ),
            *("--select", "gs1, GS203", "--select", "GS2", "--ignore", "GS101", "--thorough", "--device", "cpu"),
            *("--seed", "5", "--timeout", "7.5"),
        )
        ((found, inputs, options),) = fake.calls
        assert found.__name__ == "Double"
        assert [(list(x.shape), x.dtype, x.requires_grad) for x in inputs] == [
            ([3, 4], torch.float32, True),
            ([4], torch.float64, True),
        ]
        assert inputs[1].min() >= 1
        assert options.pop("gradient_of").__name__ == "double"
        assert options.pop("reference").__name__ == "double"
        assert callable(options.pop("progress"))
        assert options == {
            "kwargs": {"eps": 1e-3, "m": "sum"},
            "waive": ("linearity", "GS201", "derivative"),
            "select": ("GS1", "GS203", "GS2"),
            "ignore": ("GS101",),
            "fast": False,
            "thorough": True,
            "device": "cpu",
            "seed": 5,
            "timeout": 7.5,
        }

    def test_defaults(self, fake: FakeCheck, subject: str):
        invoke("check", subject, "--input", "scalar")
        options = fake.calls[0][2]
        del options["progress"]
        assert options == {
            "kwargs": {},
            "gradient_of": None,
            "reference": None,
            "waive": (),
            "select": (),
            "ignore": (),
            "fast": False,
            "thorough": False,
            "device": None,
            "seed": 0,
            "timeout": 60.0,
        }

    def test_a_seed_gives_the_same_inputs(self, fake: FakeCheck, subject: str):
        for seed in (1, 1, 2):
            invoke("check", subject, "--input", "8", "--seed", seed)
        first, same, other = (inputs[0] for _, inputs, _ in fake.calls)
        assert torch.equal(first, same)
        assert not torch.equal(first, other)

    def test_json_and_nothing_else(self, fake: FakeCheck, subject: str):
        fake.findings = [FINDING]
        result = invoke("check", subject, "--input", "3", "--json")
        assert result.exit_code == 1
        assert json.loads(result.stdout)["findings"][0]["rule"] == "GS101"
        assert result.stdout.count("\n") == 1

    def test_html(self, fake: FakeCheck, subject: str, tmp_path: Path):
        assert invoke("check", subject, "--input", "3", "--html", tmp_path / "r.html").exit_code == 0
        assert (tmp_path / "r.html").read_text(encoding="utf-8").startswith("<!doctype html>")

    def test_search_path_and_streams_are_as_before(self, fake: FakeCheck, subject: str):
        path, stdout = list(sys.path), sys.stdout
        invoke("check", subject, "--input", "3")
        assert sys.path == path
        assert sys.stdout is stdout


class TestBadUse:
    def test_no_inputs(self, fake: FakeCheck, subject: str):
        """They are searched then, and what holds for one call is refused."""
        assert "--arg: it means nothing without --input" in refused("check", subject, "--arg", "eps=1")
        assert "--device: it means nothing without --input" in refused("check", subject, "--device", "cpu")
        assert not fake.calls

    def test_what_the_check_refuses(self, fake: FakeCheck, subject: str):
        fake.error = UsageError("no input requires grad; pass one that does")
        result = invoke("check", subject, "--input", "3")
        assert result.exit_code == 2
        assert result.stdout == ""
        assert result.stderr.splitlines()[-1] == "Error: no input requires grad; pass one that does"

    @pytest.mark.parametrize(
        ("options", "told"),
        [
            (["--input", "3y"], "input '3y': '3y' are no sizes"),
            (["--input", "3", "--arg", "eps"], "argument 'eps': expected name=value"),
            (["--input", "3", "--arg", "a=1", "--arg", "a=2"], "--arg: a is given twice"),
            (["--input", "3", "--device", "gpu"], "device 'gpu' cannot be used"),
            (["--input", "3", "--select", "GS1,XX"], "--select: no rule's code begins with 'XX'"),
            (["--input", "3", "--ignore", "GS9"], "--ignore: no rule's code begins with 'GS9'"),
            (["--input", "3", "--fast", "--thorough"], "--fast and --thorough exclude each other"),
            (["--input", "3", "--html", "/no/such/folder/r.html"], "--html: there is no folder '/no/such/folder'"),
            (["--input", "3", "--html", "/"], "--html: '/' is a folder"),
            (["--input", "3", "--gradient-of", "no_such:f"], "there is no module 'no_such'"),
            (["--input", "weight=3"], "input 1 is called 'weight', but the parameters are x, weight, eps"),
        ],
    )
    def test_options(self, fake: FakeCheck, subject: str, options: list[str], told: str):
        assert told in refused("check", subject, *options)
        assert not fake.calls

    @pytest.mark.parametrize(
        "options", [["--timeout", "0"], ["--seed", "-1"], ["--timeout", "nan"], ["--timeout", "inf"], ["--sed", "1"]]
    )
    def test_what_click_refuses(self, fake: FakeCheck, subject: str, options: list[str]):
        assert invoke("check", subject, "--input", "3", *options).exit_code == 2
        assert not fake.calls

    def test_subjects(self, fake: FakeCheck, subject: str):
        assert "has no 'Duble'; did you mean Double" in refused("check", subject[:-6] + "Duble", "--input", "3")
        assert refused("check", "gone.py::f", "--input", "3") == "there is no file 'gone.py'"
        assert "expected FILE.py::Name" in refused("check", "what", "--input", "3")

    def test_an_endless_import(self, fake: FakeCheck, tmp_path: Path):
        (tmp_path / "gs_endless.py").write_text("while True:\n    pass")
        told = refused("check", f"{tmp_path}/gs_endless.py::f", "--input", "3", "--timeout", "0.2")
        assert "does not import: it takes too long" in told


class SetUp(torch.autograd.Function):
    @staticmethod
    def forward(x, weight):
        return x * weight

    @staticmethod
    def setup_context(ctx, inputs, output):
        pass


class WithContext(torch.autograd.Function):
    @staticmethod
    def forward(context, x, weight):
        return x * weight


class Module(torch.nn.Module):
    def forward(self, x, weight):
        return x * weight


class TestNames:
    @pytest.mark.parametrize("subject", [SetUp, WithContext, Module(), lambda x, weight, *, eps=1: x, Module().forward])
    def test_order(self, subject: object):
        require_names(subject, ["x", "weight"])
        require_names(subject, ["", "weight"])
        require_names(subject, ["x", "weight", "more"])  # that there is no third is for the check to say
        with pytest.raises(UsageError, match="input 1 is called 'weight', but the parameters are x, weight; give"):
            require_names(subject, ["weight", "x"])

    @pytest.mark.parametrize("subject", [WithContext.apply, lambda *inputs: inputs, Module, min])
    def test_parameters_that_cannot_be_known(self, subject: object):
        require_names(subject, ["weight", "x"])


class TestRules:
    def test_list_by_family(self):
        result = invoke("rules")
        assert result.exit_code == 0
        lines = [" ".join(line.split()) for line in result.stdout.splitlines()]
        assert lines == [
            "GS1 value",
            "GS101 wrong-value",
            "wrong maths",
            "",
            "GS2 incoming gradient, layout and mutation",
            "GS203 writes-to-gradient",
            "backward writes into the | incoming gradient",
        ]

    def test_json(self):
        data = json.loads(invoke("rules", "--json").stdout)
        assert data["schema"] == 1
        assert data["rules"][0] == {
            "code": "GS101",
            "name": "wrong-value",
            "family": "value",
            "summary": "wrong maths",
        }

    @pytest.mark.parametrize("word", ["GS203", "gs203", "writes-to-gradient", "Writes to gradient", " GS203 "])
    def test_explain(self, word: str):
        result = invoke("explain", word)
        assert result.exit_code == 0
        assert result.stdout == page(RULES[0])

    def test_explain_what_is_not_there(self):
        assert refused("explain", "GS204").startswith(
            "there is no rule 'GS204'; did you mean GS203 (writes-to-gradient)"
        )
        assert "did you mean GS101 (wrong-value)?" in refused("explain", "wrong-vlaue")
        assert "did you mean GS203 (writes-to-gradient)?" in refused("explain", "gs2")
        assert "`gradsmith rules` lists them" in refused("explain", "zzzz")
        assert "`gradsmith rules` lists them" in refused("explain", "")


class TestPages:
    def test_a_page_holds_everything(self):
        text = page(RULES[0])
        assert text.startswith("# GS203 writes-to-gradient\n\nbackward writes into the | incoming gradient\n")
        for words in (
            "Others hold it too.",
            "Multiply into a new tensor.",
            "```python\nsubject = bad\ninputs = ()\n```",
        ):
            assert words in text
        assert "````python\nsubject = '```'\ninputs = ()\n````" in text
        assert text.endswith(".\n")

    def test_index(self):
        text = index(RULES)
        assert text.index("## GS1: value") < text.index("[GS101](GS101.md)") < text.index("## GS2: ")
        assert r"| [GS203](GS203.md) | writes-to-gradient | backward writes into the \| incoming gradient |" in text
        assert "## GS3" not in text

    def test_written_pages_are_all_there_is(self, tmp_path: Path):
        folder = tmp_path / "docs" / "rules"
        write_pages(folder, RULES)
        (folder / "GS999.md").write_text("old")
        (folder / "other.md").write_text("kept")
        write_pages(str(folder), RULES)
        assert {path.name: path.read_text() for path in folder.iterdir()} == {**pages(RULES), "other.md": "kept"}


# --- as a process ------------------------------------------------------------------------------------

STAND_IN = """
import sys, importlib
from gradsmith.check._observation import Observation, Observations
module, rules = importlib.import_module("gradsmith.check"), importlib.import_module("gradsmith.check.rules")
rules.RULES = []
def check(subject, inputs, **options):
    from gradsmith.check.report._report import Report
    subject(*inputs)
    for done in range(3):
        options["progress"](done, 3, "[what]")
    return Report(Observations([Observation("subject", data={"name": "Größe"})]))
module.check = check
import gradsmith.check.command._single as command
command._MARGIN = 0.0
import gradsmith.check.command._progress as progress
progress._PATIENCE = 0.0
from gradsmith.cli import main
main(prog_name="gradsmith")
"""


def process(*args: object, env: dict[str, str] | None = None, **options: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", STAND_IN, *map(str, args)],
        text=True,
        encoding="utf-8",
        env={**os.environ, "PYTHONIOENCODING": "utf-8", **(env or {})},
        stdin=subprocess.DEVNULL,
        timeout=120,
        check=False,
        **{"capture_output": True, **options},
    )


class TestProcess:
    def test_json_whatever_is_printed_and_whenever(self, tmp_path: Path):
        path = tmp_path / "gs_loud.py"
        path.write_text(
            "import atexit, os, sys\n"
            "print('at import')\n"
            "def later():\n    print('at exit'); os.write(1, b'raw at exit')\n"
            "atexit.register(later)\n"
            "def loud(x):\n"
            "    print('while called'); sys.__stdout__.write('around'); os.write(1, b'raw')\n"
            "    os.system('echo a child'); atexit.register(later)\n"
        )
        result = process("check", f"{path}::loud", "--input", "3", "--json")
        assert result.returncode == 0, result.stderr
        assert json.loads(result.stdout)["ok"] is True
        for words in ("at import", "while called", "around", "raw", "a child", "at exit"):
            assert words in result.stderr

    def test_code_that_never_returns_is_ended(self, tmp_path: Path):
        path = tmp_path / "gs_stuck.py"
        # SIGALRM is blocked, so only the last bound is left.
        path.write_text(
            "import signal, time\n"
            "def stuck(x):\n"
            "    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGALRM})\n"
            "    time.sleep(60)\n"
        )
        result = process("check", f"{path}::stuck", "--input", "3", "--timeout", "1")
        assert result.returncode == 1
        assert "gs_stuck.py" in result.stderr
        assert result.stdout == ""

    def test_an_encoding_that_lacks_letters(self, subject: str):
        result = process("check", "math:prod", "--input", "3", env={"PYTHONIOENCODING": "ascii"})
        assert result.returncode == 0, result.stderr
        assert r"Gr\xf6\xdfe" in result.stdout

    @pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
    def test_an_output_that_cannot_be_written(self):
        with open("/dev/full", "w") as full:
            result = process(
                "check", "math:prod", "--input", "3", capture_output=False, stdout=full, stderr=subprocess.PIPE
            )
        assert result.returncode == 1
        assert "Error: the output cannot be written: No space left on device" in result.stderr
        assert "Traceback" not in result.stderr

    def test_a_closed_pipe_gives_no_traceback(self):
        ours, theirs = os.pipe()
        os.close(ours)
        result = process("rules", "--json", capture_output=False, stdout=theirs, stderr=subprocess.PIPE)
        os.close(theirs)
        assert result.stderr == ""

    @pytest.mark.skipif(os.name != "posix", reason="needs a pseudo-terminal")
    def test_progress_and_colour_on_a_terminal(self):
        import pty

        ours, theirs = pty.openpty()
        result = process(
            *("check", "math:prod", "--input", "3"),
            capture_output=False,
            stdout=subprocess.PIPE,
            stderr=theirs,
            env={"TERM": "xterm-256color"},
        )
        os.close(theirs)
        shown = os.read(ours, 65536).decode()
        os.close(ours)
        assert result.returncode == 0, shown
        assert "2/3" in shown
        assert "[what]" in shown
        assert "\x1b" not in result.stdout

    @pytest.mark.parametrize("args", [["check", "--help"], ["rules"], ["explain", "--help"], ["check", "x", "--fast"]])
    def test_needs_no_torch_before_the_check(self, args: list[str]):
        code = (
            "import sys\n"
            "from gradsmith.cli import main\n"
            "try:\n"
            f"    main({args!r}, prog_name='gradsmith')\n"
            "finally:\n"
            "    assert 'torch' not in sys.modules\n"
        )
        if args[-1] == "--fast":
            args.append("--thorough")
            code = code.replace("'--fast'", "'--fast', '--thorough'")
        result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
        assert "AssertionError" not in result.stderr
