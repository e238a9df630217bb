"""Inputs for a function nobody wrote inputs for: told from the source that calls it, from names, types and errors."""

from gradsmith.reach.inputs.search._index import SourceIndex
from gradsmith.reach.inputs.search._search import SearchResult, search
from gradsmith.reach.inputs.search._write import describe, pin

__all__ = ["SearchResult", "SourceIndex", "describe", "pin", "search"]
