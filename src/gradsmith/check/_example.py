"""Runs the source text of an example so that its functions know their own source."""

from __future__ import annotations

import linecache
import sys
from types import ModuleType
from typing import Any

__all__ = ["run_example"]


def run_example(source: str, name: str) -> dict[str, Any]:
    """Run an example and return what it defines.

    The text is entered in `linecache` under a made-up file name, so that `inspect.getsource` and tracebacks show it
    although no file exists; the namespace is that of a module of its own, as decorators and annotations may ask for it.

    Args:
        source: Python source.
        name: What the example is called, unique among those alive.

    Returns:
        The namespace after running it.

    >>> run_example("subject = abs", "doctest")["subject"](-1)
    1
    """
    filename = f"<example {name}>"
    module = ModuleType("gradsmith_example_" + "".join(c if c.isalnum() else "_" for c in name))
    module.__file__ = filename
    sys.modules[module.__name__] = module
    linecache.cache[filename] = (len(source), None, source.splitlines(keepends=True), filename)
    exec(compile(source, filename, "exec"), module.__dict__)
    return module.__dict__
