import json
import re
import xml.etree.ElementTree as ET
from dataclasses import replace
from html.parser import HTMLParser

from gradsmith.check.report._matrix import TRANSFORMS
from gradsmith.check.rules import RULES
from gradsmith.reach.report import html_page, json_text, junit_xml, sarif_text
from tests.reach.verdicts import (
    ALL,
    KNOWN,
    LEFT,
    OPERATOR,
    PIN,
    RIGHT,
    ROOT,
    UNREAD,
    WEIRD,
    WRONG,
    everything,
    finding,
    found,
    report,
)

# --- JSON --------------------------------------------------------------------------------------------


def test_json_holds_all_that_is_known():
    data = json.loads(json_text(everything()))
    assert data["schema"] == 1
    assert data["ok"] is False
    assert data["package"] == {"target": "pkg", "name": "pkg", "version": "1.2", "root": ROOT}
    assert data["exercised"]["share"] == 0.5
    assert data["findings"] == {"open": 3, "suppressed": 2, "families": {"GS2": 1, "GS5": 1, "GS9": 1}}
    assert data["exempt"] == ["pkg.ops:Base"]
    assert data["pending"] == ["pkg.ops:Later"]
    assert data["unread"] == [{"module": "pkg.fast", "file": "pkg/fast.py", "why": UNREAD.why}]
    assert data["remarks"][2] == "pkg/ops.py:3: a remark"
    by_name = {f["name"]: f for f in data["functions"]}
    clip = by_name["Clip"]
    assert (clip["id"], clip["file"], clip["line"]) == ("pkg.ops:Clip", "pkg/ops.py", 10)
    assert (clip["kind"], clip["verdict"], clip["guessed"], clip["tries"]) == ("Function", "wrong", True, 7)
    assert [f["rule"] for f in clip["findings"]] == ["GS201", "GS502"]
    assert [f["suppressed"] for f in by_name["Old"]["findings"]] == ["baseline", "inline: as in the paper"]
    assert [row["transform"] for row in clip["matrix"]] == list(TRANSFORMS)
    assert by_name[WEIRD.found.name]["findings"][0]["message"] == WEIRD.call
    assert by_name[WEIRD.found.name]["seconds"] == "nan"


# --- HTML --------------------------------------------------------------------------------------------


class Page(HTMLParser):
    """Elements and ids of a page; fails where tags do not match."""

    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.ids, self.links, self.text = [], [], [], [], ""
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        self.tags.append(tag)
        self.ids += [attrs["id"]] if "id" in attrs else []
        self.links += [attrs["href"]] if "href" in attrs else []
        assert not any(name.startswith("on") or name in ("src", "style") for name in attrs)
        if tag not in ("meta", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data


def test_the_page_stands_alone_and_its_links_lead_somewhere():
    page = Page(html_page(everything()))
    assert {"script", "link", "img", "iframe"} & set(page.tags) == set()
    assert len(page.ids) == len(set(page.ids))
    assert page.links
    assert {link.removeprefix("#") for link in page.links} <= set(page.ids)
    assert "<script>alert" in page.text


def test_the_page_shows_what_was_found_and_what_was_set_aside():
    text = Page(html_page(everything())).text
    for words in (
        "backward ignores the incoming gradient.",
        "left out, baseline",
        "left out, inline: as in the paper",
        "gradient_of=lambda x, *_: x",
        "Not exercised: 2",
        "Without a gradient of their own: 1",
        "double backward",
    ):
        assert words in text


# --- JUnit XML ---------------------------------------------------------------------------------------


def test_junit_has_a_case_for_each_function():
    root = ET.fromstring(junit_xml(everything()).encode())
    (suite,) = root
    assert suite.attrib["name"] == "pkg 1.2"
    cases = {case.attrib["name"]: case for case in suite.findall("testcase")}
    assert len(cases) == len(ALL) + 1
    for parent in (root, suite):
        assert {k: parent.attrib[k] for k in ("tests", "failures", "errors", "skipped")} == {
            "tests": "12",
            "failures": "2",
            "errors": "3",
            "skipped": "3",
        }
    told = {name: [e.tag for e in case if e.tag in ("failure", "error", "skipped")] for name, case in cases.items()}
    assert told["Fine"] == told["Old"] == told["Round"] == told["lib::scale"] == []
    assert told["Clip"] == ["failure"]
    assert told["Boom"] == told["Loop"] == told["Greedy"] == ["error"]
    assert told["Needs"] == told["Kernel"] == told["Later"] == ["skipped"]
    assert {case.attrib["classname"] for name, case in cases.items() if name in ("Clip", "Kernel")} == {
        "pkg.ops",
        "pkg.fast",
    }


def test_junit_says_what_and_why():
    cases = {c.attrib["name"]: c for c in ET.fromstring(junit_xml(report()).encode()).iter("testcase")}
    failure = cases["Clip"].find("failure")
    assert failure.attrib["message"] == "2 findings (GS201 GS502): backward ignores the incoming gradient."
    assert failure.attrib["type"] == "GS201 GS502"
    assert "grad of x[0]: got 1, expected 3" in failure.text
    assert PIN.splitlines()[0] in failure.text
    properties = {p.attrib["name"]: p.attrib["value"] for p in cases["Clip"].iter("property")}
    assert properties["gradsmith.inputs"] == "search"
    assert properties["gradsmith.intent"] == "derivative"
    assert cases["Clip"].attrib["time"] == "1.250"
    assert cases["Needs"].find("skipped").attrib["message"] == LEFT.why
    assert cases["Boom"].find("error").attrib["type"] == "crashed"
    assert "left out, inline: as in the paper: GS502" in cases["Old"].find("system-out").text


# --- SARIF -------------------------------------------------------------------------------------------


def sarif(one):
    log = json.loads(sarif_text(one))
    assert log["version"] == "2.1.0"
    (run,) = log["runs"]
    return run


def test_sarif_has_what_the_standard_asks_for():
    run = sarif(everything())
    driver = run["tool"]["driver"]
    assert driver["name"] == "gradsmith"
    assert re.fullmatch(r"\d+\.\d+\.\d+.*", driver["semanticVersion"])
    assert [rule["id"] for rule in driver["rules"]] == [rule.code for rule in RULES]
    for rule in driver["rules"]:
        assert re.fullmatch(r"[A-Z][A-Za-z0-9]+", rule["name"])
        assert rule["shortDescription"]["text"]
        assert rule["fullDescription"]["text"]
        assert rule["help"]["text"]
        assert rule["defaultConfiguration"]["level"] == "error"
    bases = run["originalUriBaseIds"]
    assert all(base["uri"].startswith("file:///") and base["uri"].endswith("/") for base in bases.values())
    for result in run["results"]:
        assert result["message"]["text"]
        assert result["level"] in ("error", "note")
        if "ruleIndex" in result:
            assert driver["rules"][result["ruleIndex"]]["id"] == result["ruleId"]
        (location,) = result["locations"]
        place = location["physicalLocation"]
        assert place["region"]["startLine"] >= 1
        uri = place["artifactLocation"]["uri"]
        assert re.fullmatch(r"[A-Za-z0-9._~/%-]+", uri)
        assert not uri.startswith("/")
        assert place["artifactLocation"]["uriBaseId"] in bases


def test_sarif_marks_findings_notes_and_what_is_set_aside():
    results = sarif(report([WRONG, KNOWN]))["results"]
    told = [(r["ruleId"], r["level"], r.get("suppressions")) for r in results]
    external = [{"kind": "external", "justification": "It stands in the baseline."}]
    assert told == [
        ("GS201", "error", None),
        ("GS502", "error", None),
        ("GS303", "note", None),
        ("GS201", "error", external),
        ("GS502", "error", [{"kind": "inSource", "justification": "as in the paper"}]),
        ("GS303", "note", None),
    ]
    assert "Seen under guessed inputs: Clip.apply(randn(3, 4), 0.5)" in results[0]["message"]["text"]
    assert "guessed" not in results[3]["message"]["text"]
    lines = [r["locations"][0]["physicalLocation"]["region"]["startLine"] for r in results[:2]]
    assert lines == [14, 10]


def test_sarif_fingerprints_stay_when_lines_move_and_differ_else():
    def prints(*verdicts):
        return [r["partialFingerprints"] for r in sarif(report(verdicts))["results"]]

    moved = replace(WRONG, found=found(line=99), findings=tuple({**f, "where": ""} for f in WRONG.findings))
    assert prints(moved) == prints(WRONG)
    twice = replace(WRONG, findings=(finding(), finding()), notes=())
    every = [tuple(p.items()) for p in prints(WRONG, KNOWN, twice)]
    assert len(set(every)) == len({*every[:6]}) + 1


def test_sarif_without_a_file_has_the_name_alone():
    (result,) = sarif(report([replace(OPERATOR, kind="wrong", findings=(finding(where=""),))]))["results"]
    (location,) = result["locations"]
    assert "physicalLocation" not in location
    assert location["logicalLocations"][0]["fullyQualifiedName"] == "lib::scale"


def test_sarif_files_outside_of_the_root_are_whole():
    outside = replace(WRONG, findings=(finding(where="/else where/a.py:3"),), notes=())
    (result,) = sarif(report([outside]))["results"]
    place = result["locations"][0]["physicalLocation"]
    assert place == {"artifactLocation": {"uri": "file:///else%20where/a.py"}, "region": {"startLine": 3}}


def test_sarif_tells_what_was_not_checked():
    (invocation,) = sarif(everything())["invocations"]
    assert invocation["executionSuccessful"] is False
    told = [(n["level"], n["message"]["text"]) for n in invocation["toolExecutionNotifications"]]
    assert ("error", "pkg.ops:Boom: crashed: it ends the process by SIGSEGV") in told
    assert ("note", f"pkg.ops:Needs: not exercised: {LEFT.why}") in told
    assert ("warning", "pkg.fast did not import: No module named 'triton'") in told
    assert ("warning", "pkg.ops:Later: the run was interrupted before it") in told
    assert sarif(report([RIGHT]))["invocations"][0]["executionSuccessful"] is True
