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
import tomllib
from concurrent.futures import ThreadPoolExecutor
from fnmatch import fnmatchcase
from pathlib import Path

HERE = Path(__file__).resolve().parent
FIELD = HERE.parent / "docs" / "field"
RAN = ("right", "wrong")


def packages() -> list[str]:
    """The distributions to check: the first part of the requirements."""
    text = (FIELD / "requirements.txt").read_text().split("# --- what those import")[0]
    return re.findall(r"^([\w.-]+)==", text, re.MULTILINE)


def off_cpu(package: str, name: str) -> str:
    """Why a function cannot run on a CPU; empty where it can."""
    table = tomllib.loads((FIELD / "not-on-cpu.toml").read_text()).get(package, {})
    return next((why for pattern, why in table.items() if fnmatchcase(name, pattern)), "")


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
    parser.add_argument("--folder", type=Path, default=Path(".field"), help="where the reports go")
    parser.add_argument("--docs", action="store_true", help="write docs/field-report.md")
    options = parser.parse_args()
    chosen = options.packages or packages()
    folder = options.folder.resolve()
    with ThreadPoolExecutor(2) as pool:
        reports = dict(zip(chosen, pool.map(lambda p: check(p, folder / p), chosen), strict=True))
    for package, report in reports.items():
        print(package, {k: len(v["functions"]) for k, v in report.items() if k != "seconds"}, report["seconds"])


if __name__ == "__main__":
    main()
