"""What shows the result of a check: matrix, text, JSON, HTML; from observations made by hand."""

import json
import math
import pickle
import re
from html.parser import HTMLParser

import pytest

from gradsmith.check._finding import Finding
from gradsmith.check._observation import Observation, Observations, dump, load
from gradsmith.check.report._matrix import TRANSFORMS, Row, matrix
from gradsmith.check.report._plain import clean, number, plain, shape
from gradsmith.check.report._report import Report
from gradsmith.check.report._svg import curve, heat_maps
from gradsmith.check.report._text import render
from gradsmith.errors import CheckError, GradsmithError

NAN, INF = math.nan, math.inf


def comparison(**changes: object) -> dict:
    base = {
        "name": "grad of x",
        "shape": [2, 2],
        "dtype": "float64",
        "got": [1.0, 4.0, 1.0, 1.0],
        "expected": [1.0, 2.0, 1.0, 1.0],
        "places": None,
        "error": 2.0,
        "tolerance": 1e-6,
        "at": [0, 1],
        "got_at": 4.0,
        "expected_at": 2.0,
        "scale": 2.0,
    }
    return {**base, **changes}


def transform(name: str, sample: str = "as given", condition: str = "eager", **data: object) -> Observation:
    return Observation("transform", sample, condition, {"transform": name, **data})


def seen(*items: Observation) -> Observations:
    return Observations(items)


SUBJECT = Observation(
    "subject",
    data={
        "name": "LayerNorm",
        "kind": "autograd.Function",
        "file": "norm.py",
        "line": 12,
        "inputs": [
            {"name": "x", "shape": [3, 4], "dtype": "float32", "requires_grad": True},
            {"name": "index", "shape": [], "dtype": "int64", "requires_grad": False},
        ],
        "arguments": {"eps": "1e-05"},
        "reference": "the forward as plain operations",
        "torch": "2.13.0",
        "seed": 7,
        "device": "cpu",
    },
)
WRONG = Finding(
    "GS101",
    "The gradient of x is not the derivative of the forward.",
    "Drop the minus sign.",
    "the gradient is -1 times the derivative",
    ("grad of x[0, 1]: got 4, expected 2, ratio 2", "grad of x[2, 3]: got 6, expected 3, ratio 2"),
    "last size 1",
    "expanded gradient",
    "norm.py:32",
    3,
)
NOTE = Finding("GS401", "ctx.x keeps an input alive.", "Use save_for_backward.", note=True)
CURVE = {
    "kind": "curve",
    "input": "x",
    "output": "out",
    "x": [0.0, 1.0, 2.0, 3.0],
    "forward": [0.0, 1.0, 4.0, 9.0],
    "gradient": [0.0, 2.0, 4.0, 3.0],
    "slope": [0.0, 2.0, 4.0, 6.0],
}
JACOBIAN = {
    "kind": "jacobian",
    "input": "x",
    "output": "out",
    "got": [[1.0, 2.0], [3.0, NAN]],
    "expected": [[1.0, -2.0], [3.0, 4.0]],
}


def full() -> Report:
    items = [
        SUBJECT,
        transform("backward", comparisons=[comparison()]),
        transform("vmap", comparisons=[comparison(error=0.0)]),
        Observation("tried", data={"what": "value of the gradient", "count": 12}),
        Observation("tried", data={"what": "linearity", "count": 1}),
        Observation("tried", data={"what": "value of the gradient", "count": 3}),
        Observation("skipped", data={"what": "compile", "why": "--fast was asked for"}),
        Observation("skipped", data={"what": "compile", "why": "--fast was asked for"}),
        Observation("noise", data={"printed": 1, "warnings": ["UserWarning: look out"]}),
        Observation("seconds", data={"seconds": 1.25}),
        Observation(
            "sample",
            data={
                "name": "empty",
                "inputs": [{"name": "x", "shape": [0, 4], "dtype": "float32", "layout": "transposed"}],
                "used": False,
                "why": "the forward refuses it",
            },
        ),
        Observation("picture", data=CURVE),
        Observation("picture", data=JACOBIAN),
    ]
    return Report(Observations(items), [WRONG, NOTE])


class TestMatrix:
    def test_every_transform_has_a_row_in_order(self):
        rows = matrix(seen())
        assert [row.transform for row in rows] == list(TRANSFORMS)
        assert {row.status for row in rows} == {"not tried"}

    def test_an_unknown_transform_comes_last(self):
        rows = matrix(seen(transform("export", comparisons=[comparison(error=0.0)])))
        assert rows[-1] == Row("export", "right")
        assert len(rows) == len(TRANSFORMS) + 1

    def test_worst_counts_whatever_the_order(self):
        right = transform("vmap", comparisons=[comparison(error=0.0)])
        refused = transform("vmap", status="refused", why="no rule for vmap")
        wrong = transform("vmap", comparisons=[comparison()])
        for items, status in (
            ([right, refused], "refused"),
            ([refused, wrong, right], "wrong"),
            ([wrong, refused], "wrong"),
            ([right, right], "right"),
        ):
            for order in (items, items[::-1]):
                assert next(r.status for r in matrix(seen(*order)) if r.transform == "vmap") == status

    def row(self, observation: Observation, *more: Observation) -> Row:
        return next(r for r in matrix(seen(observation, *more)) if r.transform == "vmap")

    def test_a_difference_is_told_with_element_and_numbers(self):
        row = self.row(transform("vmap", "last size 1", "vmap", comparisons=[comparison(error=0.0), comparison()]))
        assert row == Row("vmap", "wrong", "grad of x[0, 1]: got 4, expected 2 (last size 1)")

    def test_the_worst_difference_is_told(self):
        small = comparison(name="grad of y", error=1e-3)
        nan = comparison(name="grad of z", error=NAN, got_at=NAN, at=[])
        assert self.row(transform("vmap", comparisons=[small, comparison()])).detail.startswith("grad of x[0, 1]")
        assert self.row(transform("vmap", comparisons=[small, nan])).detail == "grad of z: got nan, expected 2"

    def test_an_error_is_a_refusal_and_its_first_line_is_told(self):
        failure = {"stage": "backward", "type": "TypeError", "text": "no way\nreally", "where": "f.py", "line": 3}
        assert self.row(transform("vmap", failure=failure)) == Row("vmap", "refused", "TypeError: no way")

    def test_a_plain_backward_that_fails_is_wrong(self):
        failure = {"stage": "backward", "type": "TypeError", "text": "no way", "where": "f.py", "line": 3}
        assert matrix(seen(Observation("value", data={"failure": failure})))[0].status == "wrong"

    def test_a_long_error_is_cut_after_a_sentence(self):
        failure = {"type": "RuntimeError", "text": "It cannot. " + "For more details, see a page. " * 9}
        detail = self.row(transform("vmap", failure=failure)).detail
        assert detail.startswith("RuntimeError: It cannot. For more details, see a page. ")
        assert detail.endswith("see a page.")
        assert len(detail) <= 160
        assert len(self.row(transform("vmap", failure={"type": "E", "text": "x" * 999})).detail) == 160

    def test_what_the_laws_say_of_the_backward_counts(self):
        rows = matrix(
            seen(
                Observation("value", data={"comparisons": [comparison()]}),
                Observation("second order", data={"status": "refused", "failure": {"type": "E", "text": "once"}}),
            )
        )
        assert rows[:2] == [
            Row("backward", "wrong", "grad of x[0, 1]: got 4, expected 2"),
            Row("double backward", "refused", "E: once"),
        ]

    def test_nothing_compared_is_not_right(self):
        assert self.row(transform("vmap", comparisons=[])).status == "not tried"

    def test_a_skipped_one_says_why(self):
        skipped = Observation("skipped", data={"what": "compile", "why": "there is no compiler"})
        assert Row("compile", "not tried", "there is no compiler") in matrix(seen(skipped))
        skipped = Observation("skipped", data={"what": "torch.compile", "why": "left out by fast"})
        assert Row("compile(func.grad)", "not tried", "left out by fast") in matrix(seen(skipped))


class TestReport:
    def test_notes_are_kept_apart_and_do_not_count(self):
        report = Report(seen(), [NOTE])
        assert report.ok
        assert report
        assert report.findings == ()
        assert report.notes == (NOTE,)
        report.raise_if_failed()

    def test_findings_count(self):
        report = full()
        assert not report.ok
        assert not report
        assert report.findings == (WRONG,)
        assert report.name == "LayerNorm"
        assert report.seconds == 1.25

    def test_counts_are_added_up_and_doubles_left_out(self):
        report = full()
        assert report.tried == ({"what": "value of the gradient", "count": 15}, {"what": "linearity", "count": 1})
        assert report.skipped == ({"what": "compile", "why": "--fast was asked for"},)

    def test_raises_what_the_text_says_of_the_findings(self):
        with pytest.raises(CheckError) as raised:
            full().raise_if_failed()
        assert isinstance(raised.value, AssertionError)
        assert isinstance(raised.value, GradsmithError)
        message = str(raised.value)
        assert message.startswith("1 finding in LayerNorm (norm.py:12)\n")
        assert "GS101" in message
        assert "got 4, expected 2, ratio 2" in message
        assert "Transforms" not in message
        assert "GS401" not in message

    def test_is_frozen_plain_and_equal_to_its_copy(self):
        report = Report(seen(SUBJECT, Observation("picture", data=CURVE)), [WRONG])
        with pytest.raises(AttributeError):
            report.seconds = 2.0
        copy = pickle.loads(pickle.dumps(report))
        assert copy == report
        assert str(copy) == str(report)
        assert copy.pictures == [CURVE]

    def test_survives_observations_written_and_read_back(self):
        report = full()
        again = Report(load(dump(report.observations)), [WRONG, NOTE])
        assert again.to_json() == report.to_json()
        assert str(again) == str(report)
        assert again.to_html() == report.to_html()

    def test_repr_is_short(self):
        assert repr(full()) == "<Report of LayerNorm: 1 finding>"


class TestText:
    def test_order(self):
        text = render(full(), 100)
        marks = [
            "1 finding in LayerNorm (norm.py:12)",
            "GS101",
            "The gradient of x is not",
            "grad of x[0, 1]: got 4",
            "the gradient is -1 times",
            "Drop the minus sign",
            "Notes",
            "GS401",
            "Transforms",
            "Checked",
            "Skipped",
        ]
        places = [text.index(mark) for mark in marks]
        assert places == sorted(places)

    def test_what_was_checked(self):
        lines = [" ".join(line.split()) for line in render(full(), 110).splitlines()]
        for line in (
            "inputs x float32 3x4, index int64 scalar (no gradient)",
            "arguments eps=1e-05",
            "reference the forward as plain operations",
            "run torch 2.13.0, on cpu, seed 7, 1.2 s",
            "printed the checked code printed 1 line",
            "15 x value of the gradient",
            "compile: --fast was asked for",
            "seen inputs: last size 1; expanded gradient; 3 times",
            "backward wrong grad of x[0, 1]: got 4, expected 2",
            "vmap right",
        ):
            assert line in lines

    @pytest.mark.parametrize("width", [60, 80, 120])
    def test_fits(self, width: int):
        long = Finding(
            "GS101", "word " * 60, "x" * 300, "d" * 200, ("e" * 500, "a b " * 90), "s" * 200, where="w" * 300
        )
        report = Report(seen(SUBJECT, transform("n" * 150, comparisons=[comparison(name="y" * 400)])), [long])
        lines = render(report, width).splitlines()
        assert max(map(len, lines)) <= width
        assert "".join(lines).replace(" ", "").count("x" * 20) >= 1
        assert "…" not in "".join(lines)

    def test_no_finding(self):
        text = str(Report(seen(SUBJECT)))
        assert text.startswith("Nothing wrong found in LayerNorm (norm.py:12)\n")
        assert "gradsmith explain" not in text

    def test_nothing_at_all(self):
        assert str(Report(seen())).startswith("Nothing wrong found in the subject\n")

    def test_plain_by_default_and_coloured_when_asked(self):
        assert "\x1b" not in str(full())
        coloured = render(full(), 100, colour=True)
        assert "\x1b[" in coloured
        assert re.sub(r"\x1b\[[\d;]*m", "", coloured).split() == render(full(), 100).split()

    def test_what_the_checked_code_says_acts_on_nothing(self):
        finding = Finding("GS101", "[bold]x[/bold] :smile: \x1b[31mred\x07 \ud800", evidence=("a\nb\tc",))
        text = render(Report(seen(), [finding]), 100)
        assert r"[bold]x[/bold] :smile: \x1b[31mred\x07 \ud800" in text
        assert "\n    a\n    b   c\n" in text

    def test_is_as_wide_as_the_terminal_within_limits(self, monkeypatch: pytest.MonkeyPatch):
        report = Report(seen(), [Finding("GS101", "word " * 100)])
        for columns, width in (("20", 60), ("70", 70), ("500", 120)):
            monkeypatch.setenv("COLUMNS", columns)
            longest = max(map(len, str(report).splitlines()))
            assert width - 10 < longest <= width


class TestJson:
    def test_round_trip(self):
        report = full()
        data = json.loads(report.to_json(), parse_constant=pytest.fail)
        assert data == report.to_dict()
        assert data["schema"] == 1
        assert data["ok"] is False
        assert data["findings"][0]["rule"] == "GS101"
        assert data["findings"][0]["family"] == "value"
        assert data["findings"][0]["evidence"] == list(WRONG.evidence)
        assert data["notes"][0]["rule"] == "GS401"
        assert data["matrix"][0] == {
            "transform": "backward",
            "status": "wrong",
            "detail": "grad of x[0, 1]: got 4, expected 2",
        }
        assert data["subject"]["inputs"][1]["shape"] == []
        assert data["samples"][0]["used"] is False

    def test_no_nan(self):
        items = [
            Observation("subject", data={"name": "f", "arguments": {"a": NAN, "b": (INF, -INF)}}),
            Observation("seconds", data={"seconds": NAN}),
        ]
        data = json.loads(Report(Observations(items)).to_json(), parse_constant=pytest.fail)
        assert data["subject"]["arguments"] == {"a": "nan", "b": ["inf", "-inf"]}
        assert data["seconds"] == "nan"

    def test_empty(self):
        data = json.loads(Report(seen()).to_json())
        assert data["ok"] is True
        assert data["subject"] == {}
        assert data["findings"] == []


class Page(HTMLParser):
    """Checks that tags are closed in order, and gathers text and tags."""

    VOID = ("meta", "br")

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict]] = []
        self.words: list[str] = []
        self.feed(html)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "style" not in self.open:
            self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())

    def count(self, tag: str) -> int:
        return sum(name == tag for name, _ in self.tags)


class TestHtml:
    def test_holds_what_the_text_holds(self):
        page = Page(full().to_html())
        for words in (
            "1 finding in LayerNorm (norm.py:12)",
            "The gradient of x is not the derivative of the forward.",
            "grad of x[0, 1]: got 4, expected 2, ratio 2",
            "the gradient is -1 times the derivative",
            "ctx.x keeps an input alive.",
            "--fast was asked for",
            "x float32 0x4 transposed",
            "no: the forward refuses it",
            "The gradient and the slope differ at 1 of 4 points, most at 3: gradient 3, slope 6.",
            "yours",
            "reference",
            "difference",
        ):
            assert words in page.text
        assert page.count("h1") == 1
        assert page.count("svg") == 4

    def test_needs_nothing_else(self):
        html = full().to_html()
        page = Page(html)
        assert "://" not in html
        assert not {"script", "link", "img", "iframe"} & {tag for tag, _ in page.tags}
        assert not {"src", "href", "onload", "onclick"} & {name for _, attrs in page.tags for name in attrs}
        assert "url(" not in html
        assert "@import" not in html

    def test_light_dark_and_print(self):
        html = full().to_html()
        assert "@media (prefers-color-scheme: dark)" in html
        assert "@media print" in html

    def test_pictures_say_what_they_show(self):
        page = Page(full().to_html())
        for _, attrs in (tag for tag in page.tags if tag[0] == "svg"):
            assert attrs["role"] == "img"
            assert attrs["aria-label"]
        assert page.count("desc") == 4
        assert page.count("th") > 10
        assert all(attrs["scope"] in ("row", "col") for tag, attrs in page.tags if tag == "th")

    def test_a_cell_s_style_stays_inside(self):
        html = full()._repr_html_()
        Page(html)
        style = re.search(r"<style>(.*?)</style>", html, re.DOTALL)[1]
        style = re.sub(r"@media [^{]*\{((?:[^{}]*\{[^{}]*\})*)\s*\}", r"\1", style)
        selectors = [s.strip() for rule in re.findall(r"([^{}]+)\{[^{}]*\}", style) for s in rule.split(",")]
        assert len(selectors) > 40
        assert all(s == ".gradsmith-report" or s.startswith(".gradsmith-report ") for s in selectors)
        assert "<html" not in html
        assert "<body" not in html
        assert ' id="' not in html

    def test_names_are_escaped(self):
        evil = "<script>alert('x')</script>\"&"
        finding = Finding("GS101", evil, evil, evil, (evil,), evil, evil, evil)
        items = [
            Observation(
                "subject", data={"name": evil, "kind": evil, "file": evil, "line": 1, "arguments": {evil: evil}}
            ),
            transform(evil, status="refused", why=evil),
            Observation("tried", data={"what": evil, "count": 1}),
            Observation("skipped", data={"what": evil, "why": evil}),
            Observation("noise", data={"printed": 0, "warnings": [evil]}),
            Observation(
                "sample", data={"name": evil, "inputs": [{"name": evil, "shape": [1]}], "used": True, "why": evil}
            ),
            Observation("picture", data={**CURVE, "input": evil, "output": evil}),
            Observation("picture", data={**JACOBIAN, "input": evil, "output": evil}),
        ]
        for html in (
            Report(Observations(items), [finding]).to_html(),
            Report(Observations(items), [finding])._repr_html_(),
        ):
            page = Page(html)
            assert page.count("script") == 0
            assert evil in "".join(page.words)

    def test_other_scripts_and_odd_characters(self):
        finding = Finding("GS101", "Größe ∂y/∂x 勾配 \ud800 \x00")
        html = Report(seen(), [finding]).to_html()
        assert "Größe ∂y/∂x 勾配" in html
        html.encode("utf-8")
        assert "\x00" not in html

    def test_no_finding_and_nothing_at_all(self):
        page = Page(Report(seen()).to_html())
        assert "Nothing wrong found in the subject" in page.text
        assert "Pictures" not in page.text

    def test_an_unknown_picture_is_left_out(self):
        page = Page(Report(seen(Observation("picture", data={"kind": "pie"}))).to_html())
        assert page.count("svg") == 0


class TestPictures:
    @pytest.mark.parametrize(
        "values",
        [
            [],
            [1.0],
            [0.0, 0.0, 0.0, 0.0],
            [NAN, NAN, NAN, NAN],
            [1.0, INF, -INF, 2.0],
            [1.7e308, -1.7e308, 0.0, 1.0],
            [5e-324, 0.0, 1e-323, 0.0],
            [1e16, 1e16 + 2, 1e16 + 4, 1e16],
            [None, 1.0, "nan", 2.0],
        ],
    )
    def test_curves_of_awkward_numbers(self, values: list):
        words, svg = curve({**CURVE, "forward": values, "gradient": values, "slope": values[::-1]})
        Page(svg)
        assert words
        drawn = re.findall(r' (?:x|y|cx|cy|x1|x2|y1|y2|points)="([^"]*)"', svg)
        assert not any("nan" in place or "inf" in place for place in drawn)
        assert svg.count("<line") < 60

    def test_a_line_breaks_where_a_number_is_missing(self):
        _, svg = curve({**CURVE, "forward": [0.0, NAN, 4.0, 9.0]})
        forward = re.findall(r'<polyline class="gs-forward" points="([^"]*)"', svg)
        assert [len(points.split()) for points in forward] == [1, 2]
        assert "forward at 1: nan" in svg

    def test_agreement_is_said(self):
        words, _ = curve({**CURVE, "gradient": CURVE["slope"]})
        assert words == "The gradient agrees with the slope at 4 points."

    def test_maps_tell_each_number_on_hover(self):
        maps = {caption: svg for caption, _, svg in heat_maps(JACOBIAN)}
        assert list(maps) == ["yours", "reference", "difference"]
        assert "<title>output 0, input 1: -2</title>" in maps["reference"]
        assert "<title>output 0, input 1: 4</title>" in maps["difference"]
        assert "<title>output 1, input 1: nan</title>" in maps["yours"]
        assert 'class="gs-minus"' in maps["reference"]
        assert maps["difference"].count("gs-mark") == 1

    def test_the_difference_is_told(self):
        words = [words for _, words, _ in heat_maps({**JACOBIAN, "got": [[1.0, 2.0], [3.0, 4.5]]})]
        assert words[-1] == "2 x 2. The largest difference is 4, at output 0, input 1."
        words = [words for _, words, _ in heat_maps({**JACOBIAN, "got": [[1.0]], "expected": [[1.0]]})]
        assert words[-1] == "1 x 1. There is no difference."

    def test_of_a_large_one_the_part_that_differs_is_shown(self):
        expected = [[0.0] * 100 for _ in range(80)]
        got = [row[:] for row in expected]
        got[70][90] = 1.0
        for _, words, svg in heat_maps({**JACOBIAN, "got": got, "expected": expected}):
            assert svg.count("<g>") == 32 * 32
            assert "output 70, input 90" in svg
            assert "80 x 100; the part around" in words

    @pytest.mark.parametrize("rows", [[], [[]], [[], []], None])
    def test_empty_maps(self, rows: object):
        for _, words, svg in heat_maps({**JACOBIAN, "got": rows, "expected": rows}):
            Page(svg)
            assert words == "There are no elements."

    def test_sides_of_unequal_size(self):
        maps = list(heat_maps({**JACOBIAN, "got": [[1.0, 2.0, 3.0]], "expected": [[1.0], [2.0]]}))
        assert [svg.count("<g>") for _, _, svg in maps] == [3, 2, 1]


class TestPlain:
    @pytest.mark.parametrize(
        ("value", "text"),
        [(1.0, "1"), (0.1 + 0.2, "0.3"), (1e-30, "1e-30"), (NAN, "nan"), (-INF, "-inf"), (None, "none"), (3, "3")],
    )
    def test_numbers(self, value: object, text: str):
        assert number(value) == text

    @pytest.mark.parametrize(("sizes", "text"), [([], "scalar"), ([0, 3], "0x3"), ([4], "4"), (None, "")])
    def test_shapes(self, sizes: object, text: str):
        assert shape(sizes) == text

    def test_nothing_that_acts_is_left(self):
        assert clean("a\x1b[0m\r\n‮é") == "a\\x1b[0m\\r\n\\u202eé"

    def test_plain_takes_anything(self):
        assert plain({1: (math.nan, {2}), "a": True}) == {"1": ["nan", "{2}"], "a": True}
