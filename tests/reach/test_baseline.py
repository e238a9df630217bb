import json
from dataclasses import replace

import pytest

from gradsmith.errors import UsageError
from gradsmith.reach._baseline import Baseline, apply_baseline, read_baseline, write_baseline
from gradsmith.reach._options import Options
from gradsmith.reach._suppress import suppressed
from tests.reach.verdicts import CRASHED, KNOWN, LEFT, NASTY, RIGHT, WEIRD, WRONG, finding, found


@pytest.fixture
def file(tmp_path):
    return tmp_path / "known.json"


def marks(verdicts):
    return [[f["suppressed"] for f in v.findings] for v in verdicts]


def test_what_was_written_suppresses_the_same_findings(file):
    write_baseline(file, [RIGHT, WRONG, WEIRD, LEFT, CRASHED])
    marked, remarks = apply_baseline([RIGHT, WRONG, WEIRD, LEFT, CRASHED], read_baseline(file))
    assert marks(marked) == [[], ["baseline", "baseline"], ["baseline"], [], []]
    assert remarks == []
    assert not any(v.open for v in marked)


def test_the_file_is_sorted_and_does_not_depend_on_order_or_lines(file):
    other = replace(WRONG, found=found("Alpha"))
    write_baseline(file, [WRONG, other])
    first = file.read_text()
    moved = replace(WRONG, found=found("Clip", line=99), findings=tuple(reversed(WRONG.findings)))
    write_baseline(file, [other, moved])
    assert file.read_text() == first
    assert first.index("Alpha") < first.index("Clip")
    data = json.loads(first)
    assert data["schema"] == 1
    assert data["findings"]["pkg.ops:Clip"]["GS201"] == {
        "count": 1,
        "message": "backward ignores the incoming gradient.",
    }
    assert first.endswith("}\n")
    assert list(file.parent.iterdir()) == [file]


def test_another_rule_another_function_and_one_more_stay_open(file):
    write_baseline(file, [replace(WRONG, findings=(finding(),))])
    twice = replace(WRONG, findings=(finding(), finding(message="and again"), finding("GS303")))
    stranger = replace(WRONG, found=found("Stranger"), findings=(finding(),))
    marked, remarks = apply_baseline([twice, stranger], read_baseline(file))
    assert marks(marked) == [["baseline", "", ""], [""]]
    assert remarks == []


def test_the_message_of_an_entry_stays_as_it_was(file):
    write_baseline(file, [replace(WRONG, findings=(finding(message="error 0.123"),))])
    before = file.read_text()
    write_baseline(file, [replace(WRONG, findings=(finding(message="error 0.124"),))], read_baseline(file))
    assert file.read_text() == before


def test_what_is_mended_is_told_and_goes_at_the_next_update(file):
    write_baseline(file, [WRONG])
    mended = replace(WRONG, kind="right", findings=())
    _, remarks = apply_baseline([mended], read_baseline(file))
    assert len(remarks) == 2
    assert "GS201" in remarks[0]
    assert "pkg.ops:Clip" in remarks[0]
    assert "--update-baseline" in remarks[0]
    write_baseline(file, [mended], read_baseline(file))
    assert read_baseline(file) == Baseline()


@pytest.mark.parametrize("kind", ["not exercised", "crashed", "timed out", "out of memory"])
def test_entries_of_what_was_not_exercised_stay(file, kind):
    write_baseline(file, [WRONG])
    before = file.read_text()
    gone = replace(WRONG, kind=kind, findings=())
    assert apply_baseline([gone], read_baseline(file))[1] == []
    write_baseline(file, [gone], read_baseline(file))
    assert file.read_text() == before
    write_baseline(file, [], read_baseline(file))
    assert file.read_text() == before


def test_rules_that_were_not_asked_for_are_neither_missed_nor_dropped(file):
    write_baseline(file, [WRONG])
    known = read_baseline(file)
    mended = replace(WRONG, kind="right", findings=())
    marked, remarks = suppressed([mended], known, Options(select=("GS5",)))
    assert [r for r in remarks if "GS201" in r] == []
    assert len(remarks) == 1
    assert suppressed([mended], known, Options(ignore=("GS2", "GS5")))[1] == []
    write_baseline(file, marked, known, asked=lambda rule: rule.startswith("GS5"))
    assert list(read_baseline(file).entries["pkg.ops:Clip"]) == ["GS201"]


def test_a_fast_check_misses_only_what_a_fast_check_found(file):
    mended = replace(WRONG, kind="right", findings=())
    write_baseline(file, [WRONG])
    assert apply_baseline([mended], read_baseline(file), fast=True)[1] == []
    write_baseline(file, [mended], read_baseline(file), fast=True)
    assert len(read_baseline(file).entries["pkg.ops:Clip"]) == 2
    file.unlink()
    write_baseline(file, [WRONG], fast=True)
    assert len(apply_baseline([mended], read_baseline(file), fast=True)[1]) == 2
    write_baseline(file, [mended], read_baseline(file), fast=True)
    assert read_baseline(file) == Baseline(fast=True)


def test_a_kept_entry_that_is_found_again_is_not_counted_twice(file):
    write_baseline(file, [WRONG])
    write_baseline(file, [WRONG], read_baseline(file), fast=True)
    assert {e.count for e in read_baseline(file).entries["pkg.ops:Clip"].values()} == {1}


def test_what_a_comment_suppresses_is_no_matter_of_the_baseline(file):
    write_baseline(file, [KNOWN])
    assert list(read_baseline(file).entries["pkg.ops:Old"]) == ["GS201"]
    marked, _ = apply_baseline([KNOWN], Baseline())
    assert marks(marked) == marks([KNOWN])


def test_text_of_any_kind_survives(file):
    write_baseline(file, [WEIRD])
    (entry,) = read_baseline(file).entries[WEIRD.found.id].values()
    assert entry.message == NASTY


def test_a_file_that_is_not_there(file):
    with pytest.raises(UsageError, match="--update-baseline"):
        read_baseline(file)
    assert read_baseline(file, missing_ok=True) == Baseline()


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"nonsense",
        b"\xff\xfe",
        b"[]",
        b"{}",
        b'{"schema": 2, "findings": {}}',
        b'{"schema": true, "findings": {}}',
        b'{"schema": 1}',
        b'{"schema": 1, "findings": []}',
        b'{"schema": 1, "findings": {"a": {"GS1": 1}}}',
        b'{"schema": 1, "findings": {"a": {"GS1": {"count": 0, "message": ""}}}}',
        b'{"schema": 1, "findings": {"a": {"GS1": {"count": 1, "message": "", "line": 3}}}}',
        b"[" * 100_000,
    ],
    ids=lambda content: content[:60].decode("latin-1"),
)
def test_what_is_no_baseline_is_refused_by_name(file, content):
    file.write_bytes(content)
    with pytest.raises(UsageError, match=r"known\.json"):
        read_baseline(file, missing_ok=True)


def test_a_folder_in_its_place_is_refused(file):
    file.mkdir()
    with pytest.raises(UsageError, match="cannot be read"):
        read_baseline(file)
    with pytest.raises(UsageError, match="cannot be written"):
        write_baseline(file, [WRONG])
