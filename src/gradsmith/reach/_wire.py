"""What goes from process to process in files: a package with its options, and verdicts."""

from __future__ import annotations

import json
import os
from dataclasses import asdict
from pathlib import Path
from typing import Any

from gradsmith.reach._found import Found, Package, Unread
from gradsmith.reach._options import Options
from gradsmith.reach._verdict import Verdict

__all__ = ["from_text", "read_verdict", "to_text", "write_package", "write_verdict"]


def to_text(package: Package, options: Options) -> str:
    return json.dumps({"package": asdict(package), "options": asdict(options)})


def from_text(text: str) -> tuple[Package, Options]:
    data = json.loads(text)
    package = data["package"]
    package["found"] = tuple(Found(**f) for f in package["found"])
    package["unread"] = tuple(Unread(**u) for u in package["unread"])
    package |= {name: tuple(package[name]) for name in ("search", "remarks")}
    options = {name: _tuples(value) for name, value in data["options"].items()}
    return Package(**package), Options(**options)


def _tuples(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _tuples(item) for key, item in value.items()}
    return tuple(value) if isinstance(value, list) else value


def write_package(path: Path, package: Package, options: Options) -> None:
    path.write_text(to_text(package, options), encoding="utf-8")


def write_verdict(folder: Path, place: int, verdict: Verdict) -> None:
    """Whole or not at all: who reads may come at any time."""
    part = folder / f"{place}.part"
    part.write_text(json.dumps(verdict.to_dict()), encoding="utf-8")
    os.replace(part, folder / f"{place}.json")


def read_verdict(folder: Path, place: int) -> Verdict:
    """The verdict of the function at a place; FileNotFoundError where there is none."""
    return Verdict.from_dict(json.loads((folder / f"{place}.json").read_text(encoding="utf-8")))
