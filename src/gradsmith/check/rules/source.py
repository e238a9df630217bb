"""The rules that read source, family GS9."""

from __future__ import annotations

from gradsmith.check._finding import Rule
from gradsmith.check.rules import source_backward, source_context, source_form, source_state, source_writes

__all__ = ["RULES"]

ROOMS = (source_writes, source_context, source_form, source_state, source_backward)
RULES: list[Rule] = sorted((r for room in ROOMS for r in room.RULES), key=lambda r: r.code)
