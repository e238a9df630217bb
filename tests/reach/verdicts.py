"""Handmade verdicts of every kind, with text that tries to break out of every format."""

from dataclasses import replace

from gradsmith.check.report._matrix import TRANSFORMS
from gradsmith.reach._found import Found, Package, Unread
from gradsmith.reach._verdict import Verdict
from gradsmith.reach.report import PackageReport

ROOT = "/nowhere/site-packages"
NASTY = "<script>alert('x')</script> & \"quoted\" ]]> \x1b[31mred\x00\x07\r \u202e \ud800 日本語 %s [bold]x[/bold]"


def found(name="Clip", line=10, module="pkg.ops", file=f"{ROOT}/pkg/ops.py", **more):
    return Found(name, module, file, line, **more)


def finding(rule="GS201", suppressed="", **more):
    data = {
        "rule": rule,
        "family": "incoming gradient, layout and mutation",
        "message": "backward ignores the incoming gradient.",
        "diagnosis": "grad of x is the same for any incoming gradient",
        "hint": "Multiply by it.",
        "evidence": ["grad of x[0]: got 1, expected 3", f"{ROOT}/pkg/ops.py:14: return x"],
        "sample": "as given",
        "condition": "eager",
        "where": f"{ROOT}/pkg/ops.py:14",
        "count": 2,
        "suppressed": suppressed,
    }
    return {**data, **more}


def note(rule="GS303", **more):
    data = finding(rule, **more)
    del data["suppressed"]
    return data


def matrix(letters="+++-X.++++..", detail=""):
    words = {"+": "right", "-": "refused", "X": "wrong", ".": "not tried"}
    return tuple(
        {"transform": name, "status": words[letter], "detail": detail}
        for name, letter in zip(TRANSFORMS, letters, strict=True)
    )


PIN = '@gs.cases("pkg.ops:Clip")\ndef _():\n    yield torch.randn(3, 4, requires_grad=True), 0.5\n'

RIGHT = Verdict(
    found("Fine", 40),
    "right",
    source="recorded",
    call="Fine.apply(x)",
    intent="derivative",
    matrix=matrix(),
    seconds=0.5,
)
WRONG = Verdict(
    found(),
    "wrong",
    source="search",
    call="Clip.apply(randn(3, 4), 0.5)",
    pin=PIN,
    tries=7,
    intent="derivative",
    intent_why="the gradient is the derivative of the forward",
    findings=(finding(), finding("GS502", message="The second derivative is silently wrong.", where="")),
    notes=(note(),),
    matrix=matrix(),
    seconds=1.25,
)
KNOWN = replace(
    WRONG,
    found=found("Old", 60),
    source="case",
    findings=(finding(suppressed="baseline"), finding("GS502", suppressed="inline: as in the paper")),
)
MEANT = Verdict(
    found("Round", 80),
    "right",
    source="call site",
    source_where=f"{ROOT}/pkg/nn.py:12",
    call="Round.apply(randn(3, 4))",
    pin=PIN,
    intent="straight-through",
    intent_why="the forward does not change with x, and the incoming gradient is passed on as it is",
    declaration=PIN.replace('Clip")', 'Round", gradient_of=lambda x, *_: x)').replace("), 0.5", ")"),
    notes=(note("GS404"),),
    matrix=matrix(),
)
CRASHED = Verdict(
    found("Boom", 90), "crashed", why="it ends the process by SIGSEGV", source="search", call="Boom.apply(x)", pin=PIN
)
HUNG = Verdict(found("Loop", 95), "timed out", why="it did not come back within 75 s, and could not be interrupted")
GREEDY = Verdict(found("Greedy", 97), "out of memory", why="it was killed, as the system does when memory runs out")
LEFT = Verdict(found("Needs", 100), "not exercised", why="forward raises TypeError: 'int' object is not callable")
NO_IMPORT = Verdict(
    found("Kernel", 5, "pkg.fast", f"{ROOT}/pkg/fast.py", reachable=False),
    "not exercised",
    why="its module does not import: No module named 'triton'",
)
OPERATOR = Verdict(found("lib::scale", 0, "pkg", "", kind="operator"), "right", source="case", intent="declared")
WEIRD = Verdict(
    found("make.<locals>." + "Very" * 40 + NASTY, 7, NASTY, f"{ROOT}/pkg/we ird#%é.py"),
    "wrong",
    source="search",
    source_where=NASTY,
    call=NASTY,
    pin=NASTY,
    intent="random",
    intent_why=NASTY,
    declaration=NASTY,
    findings=(finding("GS999", message=NASTY, diagnosis=NASTY, hint=NASTY, evidence=[NASTY, NASTY * 20], where=NASTY),),
    notes=(note("GS303", message=NASTY),),
    matrix=matrix(detail=NASTY),
    seconds=float("nan"),
)

ALL = (RIGHT, WRONG, KNOWN, MEANT, CRASHED, HUNG, GREEDY, LEFT, NO_IMPORT, OPERATOR, WEIRD)
EXEMPT = found("Base", 3, exempt=True, why="it has no backward")


UNREAD = Unread("pkg.fast", f"{ROOT}/pkg/fast.py", "No module named 'triton'")


def report(verdicts=ALL, *, more=(), unread=(UNREAD,), **options):
    every = (*(v.found for v in verdicts), *more, EXEMPT)
    package = Package("pkg", "pkg", "1.2", ROOT, found=every, unread=unread)
    return PackageReport(package, verdicts, **{"seconds": 12.5, **options})


LATER = found("Later", 300)


def everything():
    return report(more=(LATER,), interrupted=True, remarks=(WEIRD.why, WEIRD.call, f"{ROOT}/pkg/ops.py:3: a remark"))
