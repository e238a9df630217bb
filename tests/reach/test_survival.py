"""One function that ends the process, hangs, wants all memory or prints without end costs that function only."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.reach.hostile import write_package

pytestmark = pytest.mark.xdist_group("survival")  # what they share is made once


def gradsmith(folder: Path, *arguments: str, **options: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "gradsmith", "check", *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=240,
        **options,
    )


@pytest.fixture(scope="module")
def all_of_it(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict, subprocess.CompletedProcess[str]]:
    folder = tmp_path_factory.mktemp("hostile")
    write_package(folder)
    done = gradsmith(folder, "hostile", "--fast", "--timeout", "8", "--json", "--jobs", "2")
    return json.loads(done.stdout), done


def by_name(report: dict) -> dict[str, dict]:
    return {f["name"]: f for f in report["functions"]}


EXPECTED = {
    "Right": "right",
    "AlsoRight": "right",
    "Prints": "right",
    "Segfault": "crashed",
    "Exits": "crashed",
    "Hangs": "timed out",
    "Loops": "timed out",
    "Memory": "out of memory",
    "Writes": "wrong",
    "Never": "not exercised",
    "Neither": "not exercised",
}


@pytest.mark.parametrize("name", EXPECTED)
def test_each_has_its_verdict(all_of_it, name):
    report, _ = all_of_it
    assert by_name(report)[name]["verdict"] == EXPECTED[name], by_name(report)[name]


def test_each_says_why(all_of_it):
    functions = by_name(all_of_it[0])
    assert "SIGSEGV" in functions["Segfault"]["why"]
    assert "exit code 3" in functions["Exits"]["why"]
    assert "could not be interrupted" in functions["Hangs"]["why"]
    assert "no GPU" in functions["Neither"]["why"]
    assert "SIGSEGV" in functions["Never"]["why"]
    assert {f["rule"] for f in functions["Writes"]["findings"]} >= {"GS207"}


def test_what_crashed_shows_the_call(all_of_it):
    assert "Segfault.apply(" in by_name(all_of_it[0])["Segfault"]["call"]


def test_the_end_is_one_and_what_they_print_is_nowhere(all_of_it):
    report, done = all_of_it
    assert done.returncode == 1
    assert "noise" not in done.stdout + done.stderr
    assert set(by_name(report)) == set(EXPECTED) | {"Raises"}


@pytest.mark.skipif(os.name == "nt", reason="POSIX signals")
def test_ctrl_c_prints_what_is_known(tmp_path):
    write_package(tmp_path, "Right", "Hangs")
    process = subprocess.Popen(
        [sys.executable, "-m", "gradsmith", "check", "hostile", "--fast", "--timeout", "100"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    time.sleep(20)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "Right" in out
    assert "Hangs" in out
    assert "Traceback" not in err
