"""The command as a person or a program meets it: values, awkward input, pipes, imports."""

import json
import os
import subprocess
import sys
from collections.abc import Sequence

import pytest
import torch
from click.testing import CliRunner, Result

import gradsmith
from gradsmith.cli import main

DEFAULT = {
    "split-and-scale": {
        "positive": [0.0, 0.0, 0.0, 4.0, 8.0],
        "negative": [3.0, 1.0, 0.0, 0.0, 0.0],
        "grad": [-1.0, -1.0, 0.0, 2.0, 2.0],
    },
    "gradient-scale": {"grad_half": [0.5] * 4, "grad_reverse": [-1.0] * 4},
}
MANY = ",".join(str(i - 5000) for i in range(10_000))


def invoke(*args: str, env: dict[str, str] | None = None) -> Result:
    return CliRunner().invoke(main, args, env=env, prog_name="gradsmith")


def demo_json(*args: str) -> dict:
    result = invoke("demo", "--json", *args)
    assert result.exit_code == 0, result.output
    assert result.stderr == ""
    return json.loads(result.stdout)


def process(*args: str, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "gradsmith", *args],
        capture_output=True,
        text=True,
        encoding="utf-8",
        env={**os.environ, "PYTHONIOENCODING": "utf-8", **(env or {})},
        stdin=subprocess.DEVNULL,
        timeout=120,
        check=False,
    )


class TestJson:
    def test_default(self):
        assert demo_json() == DEFAULT

    def test_text_has_no_negative_zero_and_is_one_line(self):
        output = invoke("demo", "--json").stdout
        assert "-0.0" not in output
        assert output.count("\n") == 1

    def test_a_process_prints_the_object_and_nothing_else(self):
        result = process("demo", "--json")
        assert (result.returncode, result.stderr) == (0, "")
        assert json.loads(result.stdout) == DEFAULT

    @pytest.mark.parametrize(
        "args",
        [
            ["--input=-3,-1,0,2,4"],
            ["--input", "-3,-1,0,2,4"],
            ["--input", "-3 -1 0 2 4"],
            ["--input", " [-3, -1, 0,\n 2.0, 4.] "],
            ["--input", "(-3e0,-1,+0,2,.4E1)"],
            ["--input", "-3 , -1\t0 ,2 4"],
            ["--input", "-3,-1,-0,2,4"],
        ],
    )
    def test_input_is_read_in_every_common_form(self, args: Sequence[str]):
        result = demo_json(*args)
        assert result["split-and-scale"] == DEFAULT["split-and-scale"]
        assert result["gradient-scale"] == {"grad_half": [0.5] * 5, "grad_reverse": [-1.0] * 5}

    def test_values_are_not_rounded_to_float32(self):
        result = demo_json("--input", "0.1 -1e-3", "--scale=0.1")
        assert result["split-and-scale"]["positive"] == [0.2, 0.0]
        assert result["split-and-scale"]["negative"] == [0.0, 0.001]
        assert result["gradient-scale"]["grad_half"] == [0.1, 0.1]

    @pytest.mark.parametrize("scale", ["2", "-0.25", "0", "1e-3"])
    def test_scale_replaces_the_first_scale_only(self, scale: str):
        result = demo_json("--scale", scale)
        assert result["gradient-scale"] == {"grad_half": [float(scale)] * 4, "grad_reverse": [-1.0] * 4}
        assert result["split-and-scale"] == DEFAULT["split-and-scale"]

    def test_many_numbers_are_all_printed(self):
        result = demo_json("--input", MANY)
        x = [float(text) for text in MANY.split(",")]
        assert result["split-and-scale"] == {
            "positive": [2 * v if v > 0 else 0.0 for v in x],
            "negative": [-v if v < 0 else 0.0 for v in x],
            "grad": [2.0 if v > 0 else -1.0 if v < 0 else 0.0 for v in x],
        }
        assert result["gradient-scale"]["grad_reverse"] == [-1.0] * len(x)


class TestRefusals:
    @pytest.mark.parametrize(
        ("text", "said"),
        [
            ("abc", "item 1 of 'abc' is 'abc', which is not a number"),
            ("1,two,3", "item 2 of '1,two,3' is 'two', which is not a number"),
            ("[bold]1", "item 1 of '[bold]1' is '[bold]1', which is not a number"),
            ("[1,2", "is '[1', which is not a number"),
            ("1_000", "is '1_000', which is not a number"),
            ("--json", "is '--json', which is not a number"),
            ("1;\x1b[31m2", r"is '1;\x1b[31m2', which is not a number"),
            ("", "got '', which holds no number"),
            ("  ", "which holds no number"),
            (",,", "got ',,', which holds no number"),
            ("[]", "got '[]', which holds no number"),
            ("1,,2", "item 2 of '1,,2' is '', which is empty"),
            ("1,2,", "item 3 of '1,2,' is '', which is empty"),
            ("nan", "is 'nan', which is not finite"),
            ("1,-inf", "item 2 of '1,-inf' is '-inf', which is not finite"),
            ("Infinity", "is 'Infinity', which is not finite"),
            ("3.5e38", "is '3.5e38', which is too large (the largest float32 is about 3.4e38)"),
            ("1e999", "is '1e999', which is too large"),
        ],
    )
    def test_input(self, text: str, said: str):
        result = invoke("demo", "--input", text)
        assert result.exit_code == 2
        assert result.stdout == ""
        assert result.stderr.startswith("Error: --input: ")
        assert result.stderr.count("\n") == 1
        assert said in result.stderr
        assert "--input=-3,-1,0,2,4" in result.stderr

    @pytest.mark.parametrize(
        ("text", "said"),
        [
            ("half", "got 'half', which is not a number"),
            ("", "got '', which is empty"),
            ("nan", "got 'nan', which is not finite"),
            ("-inf", "got '-inf', which is not finite"),
            ("1e39", "got '1e39', which is too large"),
            ("1,2", "got '1,2', which is not a number"),
        ],
    )
    def test_scale(self, text: str, said: str):
        result = invoke("demo", "--scale", text)
        assert result.exit_code == 2
        assert result.stderr.startswith("Error: --scale: ")
        assert result.stderr.count("\n") == 1
        assert said in result.stderr

    def test_the_bad_item_is_named_within_a_long_input(self):
        result = invoke("demo", "--input", MANY + ",oops")
        assert result.exit_code == 2
        assert "item 10001 of" in result.stderr
        assert "is 'oops', which is not a number" in result.stderr
        assert len(result.stderr) < 400

    def test_largest_float32_is_accepted(self):
        assert demo_json("--input=3.4028235e38")["split-and-scale"]["positive"] == [2 * 3.4028235e38]

    @pytest.mark.parametrize("args", [["dmo"], ["demo", "--jsno"], ["demo", "extra"]])
    def test_usage_errors_are_click_s_own(self, args: list[str]):
        result = invoke(*args)
        assert result.exit_code == 2
        assert "Usage: gradsmith" in result.stderr
        assert args[-1] in result.stderr

    def test_option_without_its_value(self):
        result = invoke("demo", "--input")
        assert result.exit_code == 2
        assert "'--input' requires an argument" in result.stderr


class TestPicture:
    def test_says_that_both_forms_agree(self):
        result = invoke("demo")
        assert result.exit_code == 0
        assert "agree on all 5 values" in result.stdout
        assert "agree on all 4 values" in result.stdout

    def test_rows_show_input_and_both_gradients(self):
        rows = [line.split() for line in invoke("demo").stdout.splitlines()]
        assert ["-3", "0", "3", "1", "-1"] in [row[:5] for row in rows]
        assert ["4", "8", "0", "1", "2"] in [row[:5] for row in rows]

    def test_bars_point_the_way_the_gradient_goes(self):
        lines = invoke("demo", "--input=-3,5").stdout.splitlines()
        left, right = next(line for line in lines if line.startswith("-3")).split("|")
        assert left.endswith("█")
        assert "█" not in right
        left, right = next(line for line in lines if line.startswith(" 5")).split("|")
        assert "█" not in left
        assert right.startswith("█")

    @pytest.mark.parametrize("env", [{}, {"FORCE_COLOR": "1"}, {"TERM": "xterm-256color"}])
    def test_no_escape_codes_when_piped(self, env: dict[str, str]):
        result = process("demo", env=env)
        assert result.returncode == 0
        assert result.stderr == ""
        assert "\x1b" not in result.stdout

    @pytest.mark.parametrize("text", ["-3,-1,0,2,4", "3.4028234663852886e38,-1.2345678901234567e-30", MANY])
    def test_fits_60_columns(self, text: str):
        lines = invoke("demo", "--input", text, env={"COLUMNS": "60"}).stdout.splitlines()
        assert max(map(len, lines)) <= 60

    def test_long_numbers_are_folded_not_cut(self):
        output = invoke("demo", "--input=-1.2345678901234567e-30", env={"COLUMNS": "60"}).stdout
        assert "…" not in output

    def test_many_numbers_are_shortened(self):
        output = invoke("demo", "--input", MANY).stdout
        assert output.count("... 9990 more") == 2
        assert len(output.splitlines()) < 40
        assert "agree on all 10000 values" in output

    def test_encoding_without_blocks(self):
        result = process("demo", env={"PYTHONIOENCODING": "ascii"})
        assert result.returncode == 0
        assert "#" in result.stdout

    @pytest.mark.skipif(os.name != "posix", reason="needs a pseudo-terminal")
    @pytest.mark.parametrize(("env", "coloured"), [({}, True), ({"NO_COLOR": "1"}, False)])
    def test_colour_on_a_terminal_unless_told_otherwise(self, env: dict[str, str], coloured: bool):
        assert ("\x1b[" in on_terminal("demo", env=env)) is coloured


def on_terminal(*args: str, env: dict[str, str]) -> str:
    """What the command prints on a pseudo-terminal."""
    import pty

    ours, theirs = pty.openpty()
    base = {key: value for key, value in os.environ.items() if key not in ("NO_COLOR", "FORCE_COLOR")}
    child = subprocess.Popen(
        [sys.executable, "-m", "gradsmith", *args],
        stdin=subprocess.DEVNULL,
        stdout=theirs,
        stderr=theirs,
        env={**base, "TERM": "xterm-256color", **env},
    )
    os.close(theirs)
    chunks = []
    try:
        while chunk := os.read(ours, 4096):
            chunks.append(chunk)
    except OSError:
        pass  # Linux reports the end of a terminal as an error
    os.close(ours)
    assert child.wait(timeout=60) == 0
    return b"".join(chunks).decode()


class TestComparison:
    @pytest.mark.parametrize("flags", [[], ["--json"]])
    def test_a_wrong_library_gradient_is_reported(self, monkeypatch: pytest.MonkeyPatch, flags: list[str]):
        monkeypatch.setattr(gradsmith, "scale_gradient", lambda x, scale: x * 1, raising=False)
        result = invoke("demo", *flags)
        assert result.exit_code == 1
        assert result.stdout == ""
        assert result.stderr == (
            "Error: the two forms of gradient-scale disagree in grad_half: at x = 1 (item 1) "
            "the exercise form gives 0.5, the library operation 1\n"
        )

    def test_a_wrong_library_value_is_reported(self, monkeypatch: pytest.MonkeyPatch):
        def wrong(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            return x.clamp(min=0) * 2, x.clamp(max=0)

        monkeypatch.setattr(gradsmith, "split_and_scale", wrong, raising=False)
        result = invoke("demo")
        assert result.exit_code == 1
        assert "split-and-scale disagree in negative: at x = -3 (item 1)" in result.stderr


class TestProcess:
    @pytest.mark.parametrize("args", [["--help"], ["--version"], ["demo", "--help"], ["demo", "--input=x"], ["dmo"]])
    def test_answers_without_importing_torch(self, args: list[str]):
        code = (
            "import sys\n"
            "from gradsmith.cli import main\n"
            "try:\n"
            f"    main({args!r}, prog_name='gradsmith')\n"
            "finally:\n"
            "    heavy = {'torch', 'numpy', 'rich'} & set(sys.modules)\n"
            "    assert not heavy, heavy\n"
        )
        result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
        assert "AssertionError" not in result.stderr
        assert result.returncode == (0 if args[-1] in ("--help", "--version") else 2)

    def test_version_is_the_installed_one(self):
        from importlib.metadata import version

        assert process("--version").stdout == f"gradsmith {version('gradsmith')}\n"

    @pytest.mark.parametrize("flags", [[], ["--json"]])
    def test_a_closed_pipe_gives_no_traceback(self, flags: list[str]):
        child = subprocess.Popen(
            [sys.executable, "-m", "gradsmith", "demo", "--input", MANY, *flags],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        child.stdout.close()  # nobody will read
        stderr = child.stderr.read()
        child.stderr.close()
        child.wait(timeout=60)
        assert stderr == b""

    def test_without_torch_it_says_so(self):
        code = (
            "import sys\n"
            "sys.modules['torch'] = None\n"  # makes `import torch` raise ModuleNotFoundError
            "from gradsmith.cli import main\n"
            "main(['demo'], prog_name='gradsmith')\n"
        )
        result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
        assert result.returncode == 1
        assert result.stdout == ""
        assert result.stderr.startswith("Error: this command needs PyTorch 2.13 or newer, which cannot")
        assert result.stderr.count("\n") == 1


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
@pytest.mark.parametrize("options", [[], ["--json"]])
def test_an_output_that_cannot_be_written_is_said_so(options: list[str]) -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "gradsmith", "demo", *options], stdout=full, stderr=subprocess.PIPE, text=True
        )
    assert "Error: the output cannot be written: No space left on device" in done.stderr
    assert "Traceback" not in done.stderr
