"""``gradsmith check``: one subject on typed inputs, or all of a package on inputs that are found. No torch here."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from gradsmith.check.command import _output
from gradsmith.check.command._command import Refusal, codes, coloured
from gradsmith.check.command._single import check_one, require_writable, write_file
from gradsmith.errors import UsageError

__all__ = ["check"]

_MOST_SECONDS = 1e6
_FILE = click.Path(path_type=Path)
_ONE = ("arguments", "gradient_of", "reference", "device", "thorough")  # options that need inputs
_MANY = ("jobs", "tries", "cases", "calls", "exclude", "junit", "sarif", "baseline", "update_baseline")
_TYPED = {"arguments": "--arg"}


@click.command()
@click.argument("target")
@click.option(
    "--input",
    "inputs",
    multiple=True,
    metavar="[NAME=]SIZES[:DTYPE][:LOW..HIGH]",
    help="An input, in the order of the parameters: 3x4, scalar, x=3x4:float64, 4:0.1..2, 5:int64:0..9.",
)
@click.option("--arg", "arguments", multiple=True, metavar="NAME=VALUE", help="A further argument, such as eps=1e-5.")
@click.option("--gradient-of", metavar="SUBJECT", help="The function whose derivative the gradient is meant to be.")
@click.option("--reference", metavar="SUBJECT", help="A function with the same forward, in plain operations.")
@click.option(
    "--waive", multiple=True, metavar="LAW", help="What is broken on purpose: linearity, derivative, or a rule's code."
)
@click.option(
    "--select", multiple=True, metavar="CODES", help="Only these rules: codes or their beginnings, GS1,GS203."
)
@click.option("--ignore", multiple=True, metavar="CODES", help="Not these rules.")
@click.option("--fast", is_flag=True, default=None, help="Leave out what takes long, such as compiling.")
@click.option("--thorough", is_flag=True, help="Try more samples.")
@click.option("--device", metavar="DEVICE", help="Where to run, such as cpu or cuda:1.  [default: cpu]")
@click.option("--seed", type=click.IntRange(0, 2**63 - 1), default=0, show_default=True, help="Seed of every number.")
@click.option("--timeout", type=float, metavar="SECONDS", help="When to stop, for each function.  [default: 60]")
@click.option("--jobs", type=click.IntRange(1, 256), metavar="N", help="Functions checked at once.  [default: 1]")
@click.option("--tries", type=click.IntRange(1), metavar="N", help="Calls to try where inputs are searched.")
@click.option("--cases", multiple=True, metavar="FILE", help="A file of cases, beside the gradsmith_cases.py found.")
@click.option("--calls", metavar="FILE", help="What `gradsmith record` wrote.  [default: .gradsmith/calls]")
@click.option("--exclude", multiple=True, metavar="PATTERN", help="Not these functions: pkg.module:Name, with * and ?.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object and nothing else.")
@click.option("--html", metavar="FILE", type=_FILE, help="Write the report as one HTML page too.")
@click.option("--junit", metavar="FILE", type=_FILE, help="Write JUnit XML too.")
@click.option("--sarif", metavar="FILE", type=_FILE, help="Write SARIF 2.1.0 too, for a code-scanning view.")
@click.option("--baseline", metavar="FILE", type=_FILE, help="Findings that are known; only others count.")
@click.option("--update-baseline", is_flag=True, help="Write what is found now into the baseline.")
def check(target: str, **options: Any) -> None:
    """Find what is wrong with custom gradients.

    TARGET is a package, a module, a folder or a file: every custom gradient in it is found and checked, on inputs its
    author wrote (gradsmith_cases.py), on calls that were recorded (gradsmith record), or on inputs that are searched.
    Or it is one subject, FILE.py::Name or package.module:Name, checked on the inputs given.

    Ends with 0 where nothing is wrong, with 1 where something is, and with 2 where the question makes no sense.

    \b
    gradsmith check entmax --fast --jobs 2
    gradsmith check norm.py::LayerNorm --input 3x4 --input 4 --arg eps=1e-5
    """
    for name in ("html", "junit", "sarif", "baseline"):
        if options[name] is not None:
            require_writable(f"--{name}", options[name])
    if options["timeout"] is not None and not 0 < options["timeout"] <= _MOST_SECONDS:
        raise Refusal(f"--timeout: got {options['timeout']:g}; expected seconds above 0, and at most {_MOST_SECONDS:g}")
    if options["fast"] and options["thorough"]:
        raise Refusal("--fast and --thorough exclude each other; give one of them, or none")
    options["select"] = codes("--select", options["select"])
    options["ignore"] = codes("--ignore", options["ignore"])
    if options["inputs"]:
        _one(target, options)
    else:
        _all(target, options)


def _one(target: str, options: dict[str, Any]) -> None:
    from gradsmith.cli import require_torch

    _refuse_given(options, _MANY, "with --input, which calls one subject")
    require_torch()
    options["fast"] = bool(options["fast"])
    options["timeout"] = 60.0 if options["timeout"] is None else options["timeout"]
    check_one(target, **{name: value for name, value in options.items() if name not in _MANY})


def _all(target: str, options: dict[str, Any]) -> None:
    _refuse_given(options, _ONE, "without --input, where inputs are found")
    if options["waive"]:
        raise Refusal("--waive: it holds for one subject; for those of a package write @gs.cases(..., waive=...)")
    from gradsmith.reach.command._reach import reach

    try:
        report = reach(target, options)
    except UsageError as error:
        raise Refusal(str(error)) from None
    from gradsmith.reach.report import html_page, json_text, junit_xml, render, sarif_text

    for name, write in (("html", html_page), ("junit", junit_xml), ("sarif", sarif_text)):
        if options[name] is not None:
            write_file(f"--{name}", options[name], write(report))
    _output.write(json_text(report) if options["as_json"] else render(report, colour=coloured()))
    if report.interrupted:
        sys.exit(130)
    if not report.ok:
        sys.exit(1)


def _refuse_given(options: dict[str, Any], names: tuple[str, ...], where: str) -> None:
    for name in names:
        if options[name]:
            raise Refusal(f"{_TYPED.get(name, '--' + name.replace('_', '-'))}: it means nothing {where}")
