"""Cases: what the author of a custom gradient says it is to be called with."""

from gradsmith.reach.inputs.cases._run import Cases, load_cases
from gradsmith.reach.inputs.cases._write import case, cases

__all__ = ["Cases", "case", "cases", "load_cases"]
