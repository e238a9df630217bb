from pathlib import Path

import pytest

from gradsmith.errors import UsageError
from gradsmith.reach._config import Config, options_of, read_config
from gradsmith.reach._options import Options

FULL = """
[tool.gradsmith]
select = ["gs1", "GS203", "wrong-value"]
ignore = []
fast = true
jobs = 2
timeout = 30
tries = 200
baseline = "known.json"
cases = ["tests/more.py", "/absolute/cases.py"]
calls = "recorded/calls"
exclude = ["pkg.legacy:*"]

[tool.gradsmith.waive]
"pkg.ops:Clip" = ["linearity", "GS502"]
"lib::scale" = []
"""


def write(folder, text):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "pyproject.toml").write_text(text, encoding="utf-8")
    return folder


def test_every_key_is_read(tmp_path):
    config = read_config(write(tmp_path, FULL))
    assert config.file == tmp_path / "pyproject.toml"
    assert (config.jobs, config.baseline, config.exclude) == (2, tmp_path / "known.json", ("pkg.legacy:*",))
    options = options_of(config)
    assert options.select[:2] == ("GS1", "GS203")
    assert options.select[2].startswith("GS1")
    assert len(options.select[2]) == 5
    assert (options.ignore, options.fast, options.timeout, options.tries) == ((), True, 30.0, 200)
    assert options.cases == (str(tmp_path / "tests/more.py"), "/absolute/cases.py")
    assert options.calls == str(tmp_path / "recorded/calls")
    assert options.waive == {"pkg.ops:Clip": ("linearity", "GS502"), "lib::scale": ()}


def test_what_is_given_wins_and_what_is_not_given_does_not(tmp_path):
    config = read_config(write(tmp_path, FULL))
    options = options_of(
        config, fast=False, timeout=None, tries=5, select=(), cases=("own.py",), seed=7, html="x", jobs=9
    )
    assert (options.fast, options.timeout, options.tries, options.seed) == (False, 30.0, 5, 7)
    assert options.select[:1] == ("GS1",)
    assert options.cases == ("own.py",)


def test_without_a_file_everything_is_as_by_default(tmp_path):
    config = read_config(tmp_path)
    assert (config.jobs, config.baseline, config.exclude) == (1, None, ())
    assert options_of(Config()) == Options()


def test_the_nearest_table_upwards_counts(tmp_path):
    write(tmp_path, "[tool.gradsmith]\njobs = 3\n")
    inner = write(tmp_path / "a" / "b", "[tool.other]\nx = 1\n")
    assert read_config(inner).jobs == 3
    write(tmp_path / "a", "[tool.gradsmith]\njobs = 4\n")
    assert read_config(inner).jobs == 4


def test_a_relative_start_is_searched_upwards_too(tmp_path, monkeypatch):
    monkeypatch.chdir(write(tmp_path, "[tool.gradsmith]\njobs = 3\n"))
    (tmp_path / "sub").mkdir()
    assert read_config(Path("sub")).jobs == 3


@pytest.mark.parametrize("text", ["", "tool = 1\n", "[tool]\nother = 2\n"])
def test_files_without_a_table_say_nothing(tmp_path, text):
    (tmp_path / "deep").mkdir()
    write(tmp_path, "[tool.gradsmith]\n")
    assert options_of(read_config(write(tmp_path / "deep", text))) == Options()


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("timeuot = 3", ["'timeuot'", "did you mean 'timeout'"]),
        ("Select = []", ["'Select'", "did you mean 'select'"]),
        ("zzz = 3", ["'zzz'", "select, ignore, fast, jobs"]),
        ("fast = 1", ["tool.gradsmith.fast", "the number 1", "true or false"]),
        ("jobs = true", ["tool.gradsmith.jobs", "the truth value true", "1 to 256"]),
        ("jobs = 0", ["the number 0", "1 to 256"]),
        ("jobs = 2.0", ["the number 2.0", "a whole number"]),
        ("tries = -5", ["tool.gradsmith.tries", "the number -5"]),
        ("timeout = '3'", ["tool.gradsmith.timeout", "the string '3'", "seconds above 0"]),
        ("timeout = nan", ["the number nan"]),
        ("timeout = inf", ["the number inf"]),
        ("timeout = 0", ["the number 0"]),
        ("select = 'GS1'", ["tool.gradsmith.select", "the string 'GS1'", "an array of strings"]),
        ("select = ['GS1', 2]", ["the array", "an array of strings"]),
        ("select = ['']", ["the array", "an array of strings"]),
        ("ignore = ['GX402']", ["tool.gradsmith.ignore", "'GX402'", "no rule"]),
        ("select = ['G']", ["'G'", "no rule"]),
        ("cases = [['a']]", ["tool.gradsmith.cases", "an array of strings"]),
        ("baseline = ''", ["tool.gradsmith.baseline", "the name of a file"]),
        ("baseline = 2020-01-01", ["tool.gradsmith.baseline", "date"]),
        ("calls = {a = 1}", ["tool.gradsmith.calls", "the table"]),
        ("exclude = 'pkg'", ["tool.gradsmith.exclude", "an array of strings"]),
        ("waive = ['linearity']", ["tool.gradsmith.waive", "a table of arrays"]),
        ("waive = {'p:A' = 'linearity'}", ['tool.gradsmith.waive."p:A"', "the string 'linearity'"]),
        ("waive = {'p:A' = ['linarity']}", ['tool.gradsmith.waive."p:A"', "did you mean linearity"]),
        ("waive = {'p:A' = ['GS4']}", ['tool.gradsmith.waive."p:A"', "'GS4'"]),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_means_nothing_is_refused_by_name(tmp_path, line, words):
    write(tmp_path, f"[tool.gradsmith]\n{line}\n")
    with pytest.raises(UsageError) as caught:
        read_config(tmp_path)
    for word in [str(tmp_path / "pyproject.toml"), *words]:
        assert word in str(caught.value)


@pytest.mark.parametrize("content", [b"[tool.gradsmith\n", b"\xff\xfe", b"[tool]\ngradsmith = 3\n"])
def test_a_file_that_cannot_be_read_is_named(tmp_path, content):
    (tmp_path / "pyproject.toml").write_bytes(content)
    with pytest.raises(UsageError, match=r"pyproject\.toml"):
        read_config(tmp_path)
