from dataclasses import replace
from textwrap import dedent

import pytest

from gradsmith.reach._ignore import apply_ignores
from gradsmith.reach._options import Options
from gradsmith.reach._suppress import suppressed
from tests.reach.verdicts import RIGHT, WRONG, finding, found, note

FILE = "/pkg/ops.py"
SOURCE = """\
import torch


{above}
@decorate  {decorator}
class Clip(  {header}
    torch.autograd.Function,
):  {closing}
    "text"  {body}

    {above_method}
    @staticmethod  {method_decorator}
    def forward(ctx, x):  {forward}
        return x.clone()

    @staticmethod
    def backward(ctx, g):  {backward}
        y = g * 2  {line}
        return y  {other_line}
"""
PLACES = (
    "above",
    "decorator",
    "header",
    "closing",
    "body",
    "above_method",
    "method_decorator",
    "forward",
    "backward",
    "line",
    "other_line",
)
IGNORE = "# gradsmith: ignore[GS201] as in the paper"


def source(**comments):
    return SOURCE.format(**{place: comments.get(place, "#") for place in PLACES})


def line_of(text, words):
    return next(number for number, line in enumerate(text.splitlines(), 1) if words in line)


def judged(text, *codes, line="y = g * 2", name="Clip", notes=(), **more):
    where = f"{FILE}:{line_of(text, line)}"
    begins = more.pop("begins", "class Clip")
    return replace(
        WRONG,
        found=found(name, line_of(text, begins), file=FILE),
        kind="wrong" if codes else "right",
        findings=tuple(finding(code, where=where) for code in codes),
        notes=tuple(notes),
        **more,
    )


def applied(text, *verdicts, **options):
    marked, remarks = apply_ignores(verdicts, {FILE: text}.get, **options)
    return [[f["suppressed"] for f in v.findings] for v in marked], remarks


@pytest.mark.parametrize("place", [p for p in PLACES if p not in ("body", "other_line")])
def test_where_a_comment_counts(place):
    text = source(**{place: IGNORE})
    assert applied(text, judged(text, "GS201", "GS502")) == ([["inline: as in the paper", ""]], [])


@pytest.mark.parametrize("place", ["body", "other_line"])
def test_where_it_does_not(place):
    text = source(**{place: IGNORE})
    marks, remarks = applied(text, judged(text, "GS201"))
    assert marks == [[""]]
    assert remarks == [f"{FILE}:{line_of(text, IGNORE)}: `ignore[GS201]` suppresses nothing here; remove it"]


@pytest.mark.parametrize("begins", ["@decorate", "class Clip"])
def test_a_definition_may_be_said_to_begin_at_its_decorator(begins):
    text = source(above=IGNORE)
    assert applied(text, judged(text, "GS201", begins=begins)) == ([["inline: as in the paper"]], [])


@pytest.mark.parametrize(
    ("comment", "marks"),
    [
        ("# gradsmith: ignore[GS201,GS502] both", ["inline: both"] * 2),
        ("# gradsmith: ignore[ GS201 , gs502 ] - both", ["inline: both"] * 2),
        ("#gradsmith:ignore[GS2]", ["inline", ""]),
        ("# gradsmith: ignore[GS5]: second order", ["", "inline: second order"]),
        ("# noqa: E501  # gradsmith: ignore[GS5] beside another", ["", "inline: beside another"]),
        ("# gradsmith: ignore[GS201] [sic] #12 日本", ["inline: [sic] #12 日本", ""]),
    ],
)
def test_how_codes_are_written(comment, marks):
    text = source(header=comment)
    assert applied(text, judged(text, "GS201", "GS502")) == ([marks], [])


@pytest.mark.parametrize(
    "comment",
    ["# gradsmith: ignore", "# gradsmith: ignore[] why", "# gradsmith: ignore[GS201", "# gradsmith: ignore it"],
)
def test_a_comment_without_codes_suppresses_nothing_and_is_told(comment):
    text = source(header=comment)
    marks, (remark,) = applied(text, judged(text, "GS201"))
    assert marks == [[""]]
    assert remark.startswith(f"{FILE}:6: ")
    assert "needs the codes" in remark


@pytest.mark.parametrize("comment", ["# gradsmith: ignored by us", "# gradsmith is good", "# ignore[GS201]"])
def test_other_comments_are_nobodys_concern(comment):
    text = source(header=comment)
    assert applied(text, judged(text, "GS201")) == ([[""]], [])


def test_an_unknown_code_is_told_with_the_nearest_and_the_others_hold():
    text = source(header="# gradsmith: ignore[GS20l, GS502] why")
    marks, (remark,) = applied(text, judged(text, "GS201", "GS502"))
    assert marks == [["", "inline: why"]]
    assert "'GS20l'" in remark
    assert "did you mean GS20" in remark


def test_a_comment_in_a_string_is_none():
    text = source(body="").replace('"text"', f'"""\n    {IGNORE}\n    """')
    text = text.replace("return x.clone()", f"return x.clone(), '{IGNORE}'")
    assert applied(text, judged(text, "GS201")) == ([[""]], [])


def test_each_class_has_its_own():
    text = source(header=IGNORE) + "\n\nclass Other(torch.autograd.Function):\n    def backward(ctx, g): return g\n"
    other = judged(text, "GS201", name="Other", line="return g", begins="class Other")
    assert applied(text, judged(text, "GS201"), other)[0] == [["inline: as in the paper"], [""]]


def test_a_class_made_in_a_function_and_one_of_the_same_name():
    text = dedent(
        f"""\
        def make():
            class Clip:  {IGNORE}
                pass
        if True:
            class Clip:
                y = g * 2
        else:
            class Clip: pass  # gradsmith: ignore[GS502] on one line
        """
    )
    inner = judged(text, "GS201", name="make.<locals>.Clip", begins="    class Clip:  #")
    first = replace(inner, found=replace(inner.found, name="Clip", line=5))
    second = replace(inner, found=replace(inner.found, name="Clip", line=8), findings=(finding("GS502", where=""),))
    marks, remarks = applied(text, inner, first, second)
    assert marks == [["inline: as in the paper"], [""], ["inline: on one line"]]
    assert remarks == []


def test_an_operator_is_found_by_its_line():
    text = f"@custom_op('lib::scale')\ndef scale(x):  {IGNORE}\n    y = g * 2\n"
    verdict = judged(text, "GS201", name="lib::scale", begins="@custom_op")
    assert applied(text, verdict) == ([["inline: as in the paper"]], [])


def test_a_finding_in_another_file_has_its_comment_there():
    verdict = replace(WRONG, found=found(file="/a.py"), findings=(finding(where="/b.py:2"),))
    texts = {"/a.py": "class Clip: pass\n", "/b.py": f"def help():\n    x = 1  {IGNORE}\n"}
    marked, remarks = apply_ignores([verdict], texts.get)
    assert marked[0].findings[0]["suppressed"] == "inline: as in the paper"
    assert remarks == []


def test_one_that_suppresses_nothing_is_told_but_not_where_it_could_not_be_known():
    text = source(header="# gradsmith: ignore[GS402, GS201] why")
    clean = judged(text)
    assert len(applied(text, clean)[1]) == 1
    assert "ignore[GS402, GS201]" in applied(text, clean)[1][0]
    assert "ignore[GS402]" in applied(text, judged(text, "GS201"))[1][0]
    for kind in ("not exercised", "crashed", "timed out", "out of memory"):
        assert applied(text, replace(clean, kind=kind)) == ([[]], [])
    assert applied(text, clean, asked=lambda rule: not rule.startswith("GS4"))[1][0].count("GS402") == 0
    assert applied(text, RIGHT) == ([[]], [])


def test_what_is_only_a_note_here_makes_a_comment_useful():
    text = source(header="# gradsmith: ignore[GS402] why")
    assert applied(text, judged(text, notes=[note("GS402")])) == ([[]], [])


def test_one_that_belongs_to_nothing_is_told():
    text = f"{IGNORE}\n\n" + source()
    marks, (remark,) = applied(text, judged(text, "GS201"))
    assert marks == [[""]]
    assert remark.startswith(f"{FILE}:1: ")
    assert "belongs to no definition" in remark


@pytest.mark.parametrize(
    "text", [None, "", "class (:  # gradsmith: ignore[GS201]", "'''gradsmith", "x = '\0gradsmith'"]
)
def test_what_is_no_source_says_nothing(text):
    verdict = replace(WRONG, found=found(file=FILE))
    marked, remarks = apply_ignores([verdict], lambda file: text)
    assert marked == [verdict]
    assert remarks == []


def test_files_are_read_in_their_encoding_and_missing_ones_passed_over(tmp_path):
    file = tmp_path / "ops.py"
    file.write_bytes("# coding: latin-1\nclass Clip:  # gradsmith: ignore[GS2] caf\xe9\n    pass\n".encode("latin-1"))
    here = replace(WRONG, found=found(line=2, file=str(file)), findings=(finding(where=""),))
    gone = replace(WRONG, found=found("Gone", file=str(tmp_path / "gone.py")))
    marked, remarks = suppressed([here, gone])
    assert [f["suppressed"] for f in marked[0].findings] == ["inline: café"]
    assert marked[1] == gone
    assert remarks == []
    needless = replace(here, kind="right", findings=())
    assert len(suppressed([needless])[1]) == 1
    assert suppressed([needless], options=Options(fast=True))[1] == []
    assert suppressed([needless], options=Options(select=("GS1",)))[1] == []
