"""Every variant, in the order of the table's rows."""

from tests.transforms import compiled, functional, layout, memory, modules, reverse

GROUPS = [reverse.group, functional.group, compiled.group, memory.group, layout.group, modules.group]
VARIANTS = [variant for group in GROUPS for variant in group]
