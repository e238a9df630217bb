"""Which custom gradients a package, folder, module or file holds."""

from gradsmith.reach.find._find import find
from gradsmith.reach.find._imported import load

__all__ = ["find", "load"]
