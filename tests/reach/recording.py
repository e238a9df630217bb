"""Functions to record, and programs to run."""

import enum
import subprocess
import sys
import textwrap

import torch

from gradsmith.reach.inputs.record._pickle import dumps, loads


class Scale(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, options):
        ctx.factor = options.pop("factor")
        return x * ctx.factor

    @staticmethod
    def backward(ctx, grad):
        return grad * ctx.factor, None


class Take(torch.autograd.Function):
    """Takes anything."""

    @staticmethod
    def forward(ctx, x, *rest):
        return x.clone()

    @staticmethod
    def backward(ctx, grad):
        return grad, *[None] * (len(ctx.needs_input_grad) - 1)


class Full(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(x, factor=2.0):
        return x * factor

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.factor = inputs[1]

    @staticmethod
    def backward(ctx, grad):
        return grad * ctx.factor, None


class Mode(enum.Enum):
    LOW = 1


def ones(*size):
    return torch.ones(*size, requires_grad=True)


def copied(*args):
    return loads(dumps(None, args, {}))[1]


REPLAY = """
import inspect, sys, torch
from gradsmith.reach.inputs.record import load_calls
for call in load_calls(sys.argv[1]):
    subject = call.subject
    x = call.args[0]
    subject.apply(*call.args).sum().backward()
    assert subject._backward_cls._forward_cls is subject
    _, line = inspect.getsourcelines(subject.forward)
    print(call.name, x.grad[0, 0].item(), line, call.line, subject.__qualname__)
"""


def python(*words, cwd, **options):
    command = [sys.executable, *map(str, words)]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=120, **options)


def recorded(*words, cwd, **options):
    return python("-m", "gradsmith", "record", "--", *words, cwd=cwd, **options)


def written(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(textwrap.dedent(text))
    return path
