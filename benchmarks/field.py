"""Check real packages as their users would, and say how far it reaches.

Each package of `docs/field/requirements.txt` is checked twice: on inputs that are searched, and on calls recorded from
`docs/field/drives`. What is found is beside it by hand in `docs/field/*.py`. Called by `make field`, with the Python of
an environment where the packages are.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import re
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import field_report

HERE = Path(__file__).resolve().parent
FIELD = HERE.parent / "docs" / "field"


def packages() -> list[str]:
    """The distributions to check: the first part of the requirements."""
    text = (FIELD / "requirements.txt").read_text().split("# --- what those import")[0]
    return re.findall(r"^([\w.-]+)==", text, re.MULTILINE)


def drive_of(package: str) -> Path | None:
    names = {d.stem.removeprefix("use_") for d in (FIELD / "drives").glob("use_*.py")}
    tops = [m for m, ds in importlib.metadata.packages_distributions().items() if package.lower() in map(str.lower, ds)]
    return next((FIELD / "drives" / f"use_{m}.py" for m in (*tops, package.replace("-", "_")) if m in names), None)


def check(package: str, folder: Path) -> dict[str, dict]:
    """Both checks of a package, as the JSON reports say it."""
    folder.mkdir(parents=True, exist_ok=True)
    gradsmith = [sys.executable, "-m", "gradsmith"]
    quiet = {"cwd": folder, "env": {**os.environ, "OMP_NUM_THREADS": "1"}, "stderr": subprocess.DEVNULL}
    started = time.monotonic()
    options = ["--fast", "--json", "--timeout", "60"]
    guessed = subprocess.run([*gradsmith, "check", package, *options], stdout=subprocess.PIPE, **quiet)
    between = time.monotonic()
    reports = {"guessed": _read(guessed.stdout)}
    if (drive := drive_of(package)) is not None:
        record = [*gradsmith, "record", "-o", "calls", "--", sys.executable, str(drive)]
        subprocess.run(record, stdout=subprocess.DEVNULL, timeout=600, **quiet)
        if (folder / "calls").exists():
            told = subprocess.run([*gradsmith, "check", package, *options, "--calls", "calls"], stdout=-1, **quiet)
            reports["recorded"] = _read(told.stdout)
    reports["seconds"] = {"guessed": between - started, "recorded": time.monotonic() - between}
    (folder / "report.json").write_text(json.dumps(reports))
    return reports


def _read(output: bytes) -> dict:
    return json.loads(output) if output.strip() else {"functions": [], "package": {}}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("packages", nargs="*", help="only these")
    parser.add_argument("--folder", type=Path, default=HERE.parent / ".field" / "reports", help="where the reports go")
    parser.add_argument("--docs", action="store_true", help="write docs/field-report.md, of all packages")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="packages checked at once")
    parser.add_argument(
        "--kept", action="store_true", help="take the reports that are there, and check only what is new"
    )
    options = parser.parse_args()
    chosen = options.packages or packages()

    def report(package: str) -> dict[str, dict]:
        there = options.folder.resolve() / package / "report.json"
        if options.kept and there.exists():
            return json.loads(there.read_text())
        return check(package, there.parent)

    with ThreadPoolExecutor(options.jobs) as pool:
        reports = {}
        for package, told in zip(chosen, pool.map(report, chosen), strict=True):
            reports[package] = told
            row = field_report.Row(package, told, {}, {})
            print(f"{package}: {len(row.either)} of {len(row.able)} exercised, {len(list(row.findings()))} findings")
    if options.docs:
        page = FIELD.parent / "field-report.md"
        field_report.write(reports, page, importlib.metadata.version("torch"))
        print(f"wrote {page}")


if __name__ == "__main__":
    main()
