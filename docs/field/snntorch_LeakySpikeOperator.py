"""LSO applies another function, which fails; its own returns one gradient for two inputs."""

import torch
from snntorch import surrogate

for spike in (surrogate.LSO(), lambda x: surrogate.LeakySpikeOperator.apply(x, 0.1)):
    try:
        spike(torch.tensor([-1.0, 1.0], requires_grad=True)).sum().backward()
    except (TypeError, RuntimeError) as error:
        print("expected 0.1 and 1, got", type(error).__name__, error)
