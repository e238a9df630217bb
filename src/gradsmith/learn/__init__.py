"""Learning autograd by writing it: the seed exercises, solved in plain ``torch.autograd.Function`` style."""

from gradsmith.learn.seeds import GradientScale, SplitAndScale

__all__ = ["GradientScale", "SplitAndScale"]
