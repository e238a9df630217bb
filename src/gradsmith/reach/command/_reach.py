"""From what was typed and what the configuration says to the report of a package."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from gradsmith.check.command._progress import ProgressBar
from gradsmith.errors import UsageError
from gradsmith.reach._baseline import read_baseline, write_baseline
from gradsmith.reach._config import options_of, read_config
from gradsmith.reach._package import find_package, judge_all, narrowed
from gradsmith.reach._suppress import asked_for, suppressed
from gradsmith.reach._verdict import Verdict
from gradsmith.reach.report import PackageReport

__all__ = ["reach"]


def reach(target: str, given: dict[str, Any]) -> PackageReport:
    """Find, judge, and set aside what is known. After Ctrl-C the report holds what was known then.

    Raises:
        UsageError: there is no such target, or the configuration or the baseline cannot be read.
    """
    started = time.monotonic()
    place, only = _split(target)
    config = read_config(Path(place).resolve() if Path(place).exists() else Path.cwd())
    options = options_of(config, **given)
    baseline: Path | None = given["baseline"] or config.baseline
    update: bool = given["update_baseline"]
    if update and baseline is None:
        raise UsageError("--update-baseline: there is no baseline to write; name it with --baseline FILE")
    known = read_baseline(baseline, missing_ok=update) if baseline is not None else None
    verdicts: list[Verdict] = []
    interrupted = False
    with ProgressBar() as progress:
        package = narrowed(find_package(place, options, progress), only, (*config.exclude, *given["exclude"]))
        try:
            verdicts.extend(judge_all(package, options, given["jobs"] or config.jobs, progress))
        except KeyboardInterrupt:
            interrupted = True
    verdicts, remarks = suppressed(verdicts, known, options)
    if update and baseline is not None:
        write_baseline(baseline, verdicts, known, asked_for(options), options.fast)
        verdicts, remarks = suppressed(verdicts, read_baseline(baseline), options)
    cut = [f"{v.found.id}: {v.why}" for v in verdicts if v.kind in ("right", "wrong") and v.why]
    told = list(dict.fromkeys([*package.remarks, *remarks, *cut]))
    seconds = time.monotonic() - started
    return PackageReport(package, verdicts, interrupted=interrupted, seconds=seconds, remarks=told)


def _split(target: str) -> tuple[str, str]:
    """The place, and the name of the one function in it that is asked for, if any."""
    for mark in ("::", ":"):
        place, found, name = target.rpartition(mark)
        if found and place and all(part.isidentifier() for part in name.split(".")):
            return place, name
    return target, ""
