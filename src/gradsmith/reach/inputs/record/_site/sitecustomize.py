"""Python runs this at its start while `gradsmith record` runs a command: torch is watched once it is imported.

It imports nothing but what Python has imported already, and the program finds all as it would without it: its own
`sitecustomize` is run, and this folder is off its search path.
"""

import importlib.machinery
import importlib.util
import os
import sys
from collections.abc import Sequence
from types import ModuleType
from typing import Any


def _hand_on() -> None:
    """Run the sitecustomize that would have been run."""
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [folder for folder in sys.path if os.path.abspath(folder) != here]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", sys.path)
    if spec is not None and spec.loader is not None:
        module = importlib.util.module_from_spec(spec)
        sys.modules["sitecustomize"] = module
        spec.loader.exec_module(module)


def _watch(folder: str) -> None:
    from gradsmith.reach.inputs.record._hook import begin

    begin(folder)


def _watch_declared(folder: str) -> None:
    from gradsmith.reach.inputs.record._recorder import declared_too

    declared_too()


_STEPS = {"torch": _watch, "gradsmith.declare": _watch_declared}


class _AfterImport:
    """A finder that finds nothing itself: it asks the others for a module, and adds a step to the end of its import."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.asking = False

    def find_spec(self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> Any:
        if name not in _STEPS or self.asking:
            return None
        self.asking = True
        try:
            spec: Any = importlib.util.find_spec(name)
        finally:
            self.asking = False
        if spec is not None and hasattr(spec.loader, "exec_module"):
            run = spec.loader.exec_module

            def run_and_record(module: ModuleType) -> None:
                run(module)
                del spec.loader.exec_module
                self.step(name)

            spec.loader.exec_module = run_and_record
        return spec

    def step(self, name: str) -> None:
        try:
            _STEPS[name](self.folder)
        except Exception as error:  # noqa: BLE001  (the program is not to know)
            try:
                with open(os.path.join(self.folder, f"{os.getpid()}.note"), "w") as file:
                    file.write(f"{sys.executable}: {type(error).__name__}: {error}\n")
            except OSError:
                pass


if _folder := os.environ.get("GRADSMITH_RECORD"):
    sys.meta_path.insert(0, _AfterImport(_folder))
    _hand_on()
