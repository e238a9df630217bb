import json
import subprocess
import sys
from dataclasses import replace

import pytest
from rich.cells import cell_len

from gradsmith.reach._found import Package
from gradsmith.reach.report import (
    PackageReport,
    html_page,
    json_text,
    junit_xml,
    render,
    sarif_text,
    verdict_text,
)
from tests.reach.verdicts import (
    ALL,
    CRASHED,
    HUNG,
    KNOWN,
    LATER,
    LEFT,
    MEANT,
    NO_IMPORT,
    PIN,
    RIGHT,
    ROOT,
    UNREAD,
    WEIRD,
    WRONG,
    everything,
    finding,
    found,
    matrix,
    report,
)

FORMATS = [render, json_text, html_page, junit_xml, sarif_text]


# --- the counts --------------------------------------------------------------------------------------


def test_what_is_counted():
    one = everything()
    assert one.counts == {
        "wrong": 2,
        "crashed": 1,
        "timed out": 1,
        "out of memory": 1,
        "known": 1,
        "right": 3,
        "not exercised": 2,
    }
    assert one.sources == {"case": 2, "recorded": 1, "call site": 1, "search": 2}
    assert one.families == {"GS2": 1, "GS5": 1, "GS9": 1}
    assert (one.findings, one.suppressed) == (3, 2)
    assert (len(one.checkable), len(one.exercised)) == (len(ALL) + 1, 6)
    assert one.share == pytest.approx(6 / 12)
    assert one.pending == (LATER,)


@pytest.mark.parametrize(
    ("verdicts", "ok"),
    [
        ([], True),
        ([RIGHT, MEANT, KNOWN], True),
        ([LEFT, NO_IMPORT], True),
        ([RIGHT, WRONG], False),
        ([CRASHED], False),
        ([HUNG], False),
    ],
    ids=["nothing", "right and known", "not exercised", "a finding", "a crash", "a time-out"],
)
def test_what_is_a_failure(verdicts, ok):
    assert report(verdicts).ok is ok


def test_a_family_nobody_knows_is_counted_too():
    one = report([replace(WRONG, findings=(finding("XY1"), finding("GS1")))])
    assert one.families == {"GS1": 1, "XY1": 1}


@pytest.mark.parametrize(
    ("one", "sentence"),
    [
        (report([]), "No custom gradient found."),
        (report([LEFT]), "Nothing could be said of 1 function; 1 not exercised."),
        (report([RIGHT, MEANT, LEFT]), "Nothing wrong found in 2 functions; 1 not exercised."),
        (report([KNOWN]), "Nothing wrong found in 1 function; 2 known findings left out."),
        (report([WRONG, RIGHT, HUNG]), "2 findings in 1 of 3 functions; 1 timed out."),
        (
            report([RIGHT], more=(LATER,), interrupted=True),
            "Nothing wrong found in 1 function; interrupted before 1 function.",
        ),
    ],
    ids=["nothing", "left out", "right", "known", "wrong", "interrupted"],
)
def test_the_sentence(one, sentence):
    assert one.sentence == sentence
    assert render(one).splitlines()[-1] == sentence


# --- every format ------------------------------------------------------------------------------------


@pytest.mark.parametrize("write", FORMATS, ids=lambda write: write.__name__)
@pytest.mark.parametrize(
    "one",
    [everything(), report([]), PackageReport(Package("x", "x"), [])],
    ids=["everything", "nothing", "a bare package"],
)
def test_nothing_that_acts_gets_through(write, one):
    text = write(one)
    assert [c for c in text if not c.isprintable() and c not in "\n"] == []
    text.encode("utf-8")


@pytest.mark.parametrize("write", FORMATS, ids=lambda write: write.__name__)
def test_every_function_and_module_is_named(write):
    text = write(everything())
    wrong = ("Clip", "Old", "Boom", "Loop", "Greedy", "Needs", "Kernel", "Later")
    for name in wrong if write is sarif_text else (*wrong, "Fine", "Round", "lib::scale"):
        assert name in text
    assert "triton" in text


@pytest.mark.parametrize("write", FORMATS, ids=lambda write: write.__name__)
def test_files_are_relative_to_the_root(write):
    one = report([WRONG, CRASHED, MEANT], remarks=(f"{ROOT}/pkg/ops.py:3: a remark",))
    assert "pkg/ops.py" in write(one)
    text = write(one).replace(f'"file://{ROOT}/"', "").replace(f'"root": "{ROOT}"', "")
    assert ROOT not in text


def test_files_below_the_current_folder_are_relative_to_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    root = tmp_path / "src"
    inside = replace(
        WRONG, found=replace(WRONG.found, file=str(root / "pkg" / "ops.py")), findings=(finding(where=""),)
    )
    one = PackageReport(Package("pkg", "pkg", root=str(root), found=(inside.found,)), [inside])
    assert json.loads(json_text(one))["functions"][0]["file"] == "src/pkg/ops.py"
    (result,) = [r for r in json.loads(sarif_text(one))["runs"][0]["results"] if r["level"] == "error"]
    assert result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == "src/pkg/ops.py"


def test_files_of_an_environment_in_the_current_folder_are_relative_to_the_environment(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    root = tmp_path / ".venv" / "lib" / "site-packages"
    inside = replace(LEFT, found=replace(LEFT.found, file=str(root / "pkg" / "ops.py")))
    one = PackageReport(Package("pkg", "pkg", root=str(root), found=(inside.found,)), [inside])
    assert json.loads(json_text(one))["functions"][0]["file"] == "pkg/ops.py"


def test_torch_is_not_imported():
    code = "import sys, gradsmith.reach.report, gradsmith.reach._config, gradsmith.reach._suppress\n"
    code += "assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


# --- text --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("width", [60, 80, 120])
def test_no_line_is_wider_than_the_terminal_but_those_to_paste(width):
    pasted = {f"    {line}".rstrip() for line in PIN.splitlines() + MEANT.declaration.splitlines()}
    one = report([v for v in ALL if v is not WEIRD])
    long = [line for line in render(one, width=width).splitlines() if cell_len(line) > width and line not in pasted]
    assert long == []


def test_the_parts_stand_in_order():
    one = report(more=(LATER,), interrupted=True, unread=(UNREAD,), remarks=("a remark",))
    lines = render(one, width=80).splitlines()
    parts = [
        "pkg 1.2",
        "pkg.ops:Clip  pkg/ops.py:10",
        "pkg.ops:Boom  pkg/ops.py:90",
        "Notes",
        "Not exercised: 2",
        "Modules that did not import: 1",
        "Not reached before the interruption: 1",
        "Findings by family",
        "Remarks",
    ]
    places = [lines.index(part) for part in parts]
    assert places == sorted(places)


def test_a_line_of_the_table():
    text = render(report([WRONG, MEANT, KNOWN]), width=80)
    rows = [line.split() for line in text.splitlines()]
    assert ["Clip", "wrong", "search", "derivative", "GS201", "GS502"] in rows
    assert ["Round", "right", "call", "site", "straight-through"] in rows
    assert ["Old", "known", "case", "derivative", "GS201", "GS502"] in rows


def test_transforms_stand_in_the_table_where_there_is_room():
    one = report([replace(RIGHT, matrix=matrix("+-X.++++++++"))])
    assert "+-X.++++++++" in render(one, width=120)
    assert "a backward" in render(one, width=120)
    assert "+-X." not in render(one, width=80)
    assert "X wrong" not in render(report([replace(RIGHT, matrix=())]), width=120)


def test_many_codes_are_cut():
    one = report([replace(WRONG, findings=tuple(finding(f"GS10{n}") for n in range(1, 8)))])
    assert "GS101 GS102 GS103 GS104 +3" in render(one, width=80)


def test_guessed_inputs_are_called_so_and_can_be_pasted():
    text = render(report([WRONG]), width=80)
    assert "under guessed inputs (search): Clip.apply(randn(3, 4), 0.5)" in text
    pasted = "\n".join(f"    {line}" for line in PIN.strip().splitlines())
    assert "to pin these inputs, put this in gradsmith_cases.py, below" in " ".join(text.split())
    assert f"\n{pasted}\n" in text
    known = render(report([replace(WRONG, source="case")]), width=60)
    assert "guessed" not in known
    assert "called (case): Clip.apply" in known
    assert "to pin" not in known


def test_what_is_left_out_is_grouped_by_its_reason():
    more = [replace(LEFT, found=found(f"Needs{n}"), why=f"{LEFT.why}\n") for n in range(3)]
    text = render(report([LEFT, *more, NO_IMPORT, replace(LEFT, found=found("Bare"), why="")]), width=120)
    assert text.count("'int' object is not callable") == 1
    assert "    pkg.ops: Needs, Needs0, Needs1, Needs2" in text
    assert "no reason is known\n    pkg.ops: Bare" in text


def test_what_is_meant_is_shown_once_for_each_class():
    more = [replace(MEANT, found=found(f"Round{n}")) for n in range(9)]
    text = render(report([MEANT, *more]), width=120)
    assert "straight-through (10): pkg.ops: Round, Round0, Round1" in text
    assert text.count("gradient_of=lambda x, *_: x") == 1


def test_a_long_list_is_one_line_for_each_function():
    many = [replace(RIGHT, found=found(f"F{n:03}")) for n in range(200)]
    assert len(render(report(many), width=120).splitlines()) < 220


def test_colour_only_where_it_is_asked_for():
    assert "\x1b[" in render(report([WRONG]), colour=True)
    assert "\x1b[" not in render(report([WRONG]), colour=False)


def test_one_function_alone():
    text = verdict_text(WRONG)
    assert "backward ignores the incoming gradient." in text
    assert f"{ROOT}/pkg/ops.py:14" in text
    assert PIN.splitlines()[0] in text
    assert verdict_text(CRASHED).startswith("  crashed: it ends the process by SIGSEGV")
    assert verdict_text(LEFT) == f"  not exercised: {LEFT.why}"
