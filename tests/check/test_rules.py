"""Every rule finds its bad example and leaves its good one alone; the rules are pure and need no torch."""

from __future__ import annotations

import functools
import gc
import json
import re
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

import gradsmith as gs
from gradsmith.check import Finding, Observations, Rule, dump, load
from gradsmith.check._example import run_example
from gradsmith.check._finding import FAMILIES
from gradsmith.check.report._pages import pages, write_pages
from gradsmith.check.rules import RULES

PAGES = Path(__file__).parents[2] / "docs" / "rules"
SLOW = ("GS603", "GS604", "GS607")  # what `fast` leaves out
PER_RULE = pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.code)


@pytest.fixture(autouse=True, scope="module")
def _quick_collection():
    """What is alive already is left out by the garbage collector, which every check calls several times."""
    gc.freeze()
    yield
    gc.unfreeze()


def _run(rule: Rule, kind: str) -> gs.Report:
    return _report(getattr(rule, kind), not rule.code.startswith(SLOW))


@functools.cache  # several rules have the same good example
def _report(text: str, fast: bool) -> gs.Report:
    example = run_example(text, f"of a rule {hash(text)}")
    return gs.check(example["subject"], example["inputs"], fast=fast, **example.get("options", {}))


# examples ---------------------------------------------------------------------------------------------------------


@PER_RULE
def test_the_bad_example_is_found(rule):
    report = _run(rule, "bad")
    assert rule.code in {f.rule for f in (*report.findings, *report.notes)}, str(report)


@PER_RULE
def test_the_good_example_is_left_alone(rule):
    report = _run(rule, "good")
    assert report.ok, str(report)
    assert rule.code not in {f.rule for f in report.notes}, str(report)


@PER_RULE
def test_examples_are_short_and_differ(rule):
    for text in (rule.bad, rule.good):
        assert len(text.strip().splitlines()) <= 32
        assert max(map(len, text.splitlines())) <= 110
        assert "import torch" in text
    assert rule.bad != rule.good


# words ------------------------------------------------------------------------------------------------------------


def test_codes_are_unique_ordered_and_of_a_known_family():
    codes = [rule.code for rule in RULES]
    assert codes == sorted(set(codes))
    assert all(re.fullmatch(r"GS\d{3}", code) and code[:3] in FAMILIES for code in codes)
    assert {code[:3] for code in codes} == set(FAMILIES)


def test_names_are_unique_and_of_words_joined_by_hyphens():
    names = [rule.name for rule in RULES]
    assert len(names) == len(set(names))
    assert all(re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", name) for name in names)


@PER_RULE
def test_texts_are_sentences(rule):
    assert rule.summary.strip()
    assert "\n" not in rule.summary.strip()
    for text in (rule.why, rule.mend):
        assert text.strip().endswith((".", "`")), text
    assert rule.family == FAMILIES[rule.code[:3]]


@pytest.mark.parametrize("code", ["GS101", "GS205", "GS305", "GS401", "GS502", "GS701", "GS802"])
def test_a_finding_says_what_is_wrong_and_how_to_mend_it(code):
    rule = next(rule for rule in RULES if rule.code == code)
    found = next(f for f in _run(rule, "bad").findings if f.rule == code)
    assert found.message.endswith(".")
    assert found.hint == rule.mend
    assert found.count >= 1


# purity -----------------------------------------------------------------------------------------------------------

CHOSEN = ("GS101", "GS106", "GS203", "GS205", "GS301", "GS304", "GS401", "GS503", "GS601", "GS701", "GS801", "GS901")

WITHOUT_TORCH = """
import dataclasses, json, pathlib, sys
sys.modules["torch"] = None
from gradsmith.check import load
from gradsmith.check.rules import RULES
found = {}
for path in sorted(pathlib.Path(sys.argv[1]).glob("*.jsonl")):
    observations = load(path.read_bytes())
    found[path.stem] = [dataclasses.asdict(finding) for rule in RULES for finding in rule(observations)]
assert sys.modules["torch"] is None
print(json.dumps(found))
"""


def _judge(observations: Observations) -> list[Finding]:
    return [finding for rule in RULES for finding in rule(observations)]


def _plain(findings: list[Finding]) -> Any:
    return json.loads(json.dumps([asdict(finding) for finding in findings]))


def test_rules_judge_observations_in_a_process_without_torch(tmp_path):
    expected = {}
    for rule in RULES:
        if rule.code in CHOSEN:
            seen = _run(rule, "bad").observations
            (tmp_path / f"{rule.code}.jsonl").write_bytes(dump(seen))
            expected[rule.code] = _plain(_judge(seen))
            assert rule.code in {f["rule"] for f in expected[rule.code]}
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_TORCH, str(tmp_path)], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == expected


def test_rules_neither_change_what_they_judge_nor_remember_it():
    seen, other = (_run(RULES[0], kind).observations for kind in ("bad", "good"))
    before = dump(seen)
    first = _judge(seen)
    assert _judge(other) == []
    assert _judge(seen) == first
    assert dump(seen) == before
    assert _judge(load(before)) == first
    assert _judge(Observations()) == []


# pages ------------------------------------------------------------------------------------------------------------


def test_the_pages_of_the_rules_are_up_to_date():
    written = {path.name: path.read_text(encoding="utf-8") for path in PAGES.glob("*.md")}
    assert written == pages(RULES), "run `make rules`"


def test_pages_of_rules_that_are_gone_are_removed(tmp_path):
    (tmp_path / "GS000.md").write_text("old")
    (tmp_path / "notes.md").write_text("someone else's")
    write_pages(tmp_path, RULES[:2])
    assert {path.name for path in tmp_path.iterdir()} == {"README.md", "notes.md", *(f"{r.code}.md" for r in RULES[:2])}
