"""What an argument is likely to be, told from its name, annotation and default."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import torch

from gradsmith.reach.inputs.search._values import Literal, Tensor, Tensors, Value

__all__ = ["by_annotation", "by_name", "likely", "told"]

_L = Literal
_NORMAL = Tensor()
_FIRST = _L(lambda x, *_: x, "lambda x, *_: x")
_SECOND = _L(lambda t, y, *_: y, "lambda t, y, *_: y")
_TANH = _L(torch.nn.Tanh(), "torch.nn.Tanh()")
_TANHS = _L(torch.nn.ModuleList([torch.nn.Tanh()]), "torch.nn.ModuleList([torch.nn.Tanh()])")

# The first pattern that fits the whole name decides. Shapes of tensors are put in later.
_NAMES: tuple[tuple[str, tuple[Value, ...]], ...] = (
    (r"(min|low|lower|start|a_min)(_?(val|value|bound|limit))?", (_L(-1.0), Tensor(), _L(0))),
    (r"(max|high|upper|stop|a_max)(_?(val|value|bound|limit))?", (_L(1.0), Tensor(), _L(8))),
    (r"(.*_)?(dim|dims|axis|axes)", (_L(-1), _L(0), _L(1), _L((-1,)))),
    (r"(eps|epsilon|tol|atol|rtol|xtol)", (_L(1e-6), _L(1e-3))),
    (r"(n_?iters?|num_?iters?|max_?iters?|iterations|maxiter)", (_L(50), _L(10))),
    (r".*(process_)?group|pg", (_L(None),)),
    (r"(training|train|inplace|causal|is_causal|reverse|reversed|(is|use|return|ensure|with|do|has)_.*|verbose|debug)",
     (_L(False), _L(True))),
    (r"(narrow_range|signed|symmetric|mean|bias_correction|batch_first|transposed?|upper)", (_L(True), _L(False))),
    (r".*mask.*", (Tensor("mask"), _L(None), Tensor("unit"))),
    (r"(.*_)?(idx|index|indices|ind)", (Tensor("index"), _L(0))),
    (r"(labels?|targets?|y_true|classes)", (Tensor("index"), Tensor(), Tensor("simplex"))),
    (r"(gamma|sigma|tau|temperature|temp|slope|p|momentum|decay|beta\d?|lambda_?|lambd|lam|lmbda|alpha|scaling|strength)",
     (_L(0.5), Tensor("positive", ()), _L(1.0), _L(2), Tensor("positive"))),
    (r"(length_?scales?|bandwidth|outputscale|noise)", (Tensor("positive", ()), Tensor("positive"))),
    (r"(scale|threshold|thresh|vth|v_th|theta)", (_L(1.0), Tensor("positive", ()), Tensor("positive"), _L(0.5))),
    (r"(zero_?point|offset)", (_L(0.0), Tensor("positive", ()), _L(0))),
    (r"(n|k|num_?.*|.*_count|count|bits?|n_?bits?|bit_?width|steps?|order|degree|levels?|groups?|stride|kernel_?size|chunk.*|block.*)",
     (_L(2), _L(4), _L(1), _L((2, 2)), Tensor("positive", ()))),
    (r"(padding|dilation|pad|stride)", (_L(1), _L(0), _L((1, 1)))),
    (r"(mode|reduction|padding_mode|pad_mode|method)", (_L("mean"), _L("sum"), _L("none"), _L(0), _L("zero"))),
    (r"(.*_)?dist(ance)?_?(fn|func|function)", (_L(torch.cdist, "torch.cdist"),)),
    (r"event_(fn|func|function)|(.*_)?hook|(.*_)?callback", (_L(None), _FIRST)),
    (r"(f|activation|act|(.*_)?(fn|func|function))", (_FIRST, _L(None), _SECOND)),
    (r"(.*_)?(fns|funcs|functions|activations)", (_L([_FIRST.value], "[lambda x, *_: x]"), _L(()))),
    (r"(.*_)?(module|block|layer|net|network|model|fm|gm)", (_TANH, _FIRST)),
    (r"(.*_)?(modules|blocks|layers)", (_TANHS,)),
    (r"(.*_)?(options|kwargs|params|config|cfg)|.*_args", (_L({}), _L(None), _L(()))),
    (r"n(um)?_.*(args|params)", (_L(0), _L(1))),
    (r"(t|ts|times?|t_?span|time_?steps|knots|grid|boundaries|breakpoints|t_eval)",
     (Tensor("increasing", (5,)), Tensor(), _L(1.0))),
    (r"[hg][01]\w{0,4}|(.*_)?filt(er)?s?", (Tensor("filter"), Tensor())),
    (r"(shape|size|sizes|output_size|out_shape|normalized_shape|x_shape)", (_L("shape"), _L((3, 4)))),
    (r"(.*_)?(spk|spikes?)(_(rec|out|in|input|train|seq|packed))?", (Tensor("binary"), Tensor())),
    (r"dtype", (_L(None),)),
    (r"device", (_L(None), _L("cpu"))),
    (r"(probs?|probabilities|p_?hat|q_?hat|marginals)", (Tensor("simplex"), Tensor("unit"))),
    (r"(cov|covar|covariance|spd|sym|psd|adjacency|adj|gram|precision)(_.*)?", (Tensor("definite"), Tensor())),
    (r"(var|variance|std|distances?|dist|d|norms?|lengths?|rates?)", (Tensor("positive"), Tensor())),
)  # fmt: skip

_ANNOTATIONS: tuple[tuple[str, tuple[Value, ...]], ...] = (
    (r"(torch\.)?(Float)?Tensor", (_NORMAL,)),
    (r"(torch\.)?(Long|Int)Tensor", (Tensor("index"),)),
    (r"(torch\.)?BoolTensor", (Tensor("mask"),)),
    (r"bool", (_L(False), _L(True))),
    (r"int|SymInt", (_L(2), _L(1), _L(0), _L(4))),
    (r"float|number|Number", (_L(0.5), _L(1.0), _L(2.0))),
    (r"str", (_L("mean"), _L("sum"), _L("none"))),
    (r"(Optional\[(torch\.)?Tensor\]|(torch\.)?Tensor ?\| ?None|Tensor\?)", (_NORMAL, _L(None))),
    (r"(Optional\[float\]|float ?\| ?None|Union\[float, int\])", (_L(0.5), _L(None), _L(1.0))),
    (r"(Optional\[int\]|int ?\| ?None)", (_L(2), _L(None), _L(-1))),
    (
        r"(List|Sequence|Iterable|list|Tuple|tuple)\[(torch\.)?Tensor.*\]",
        (Tensors((Tensor(), Tensor())), Tensors((Tensor(),))),
    ),
    (r"(Tuple|List|tuple|list|Sequence)\[int.*\]|int\[\d*\]|SymInt\[\d*\]", (_L((2, 2)), _L((1,)), _L((3, 4)))),
    (r"(typing\.)?Callable.*", (_FIRST, _SECOND)),
    (r"((torch\.)?nn\.)?Module", (_TANH,)),
    (r"(torch\.)?dtype.*", (_L(None),)),
)


def by_name(name: str) -> tuple[Value, ...]:
    """What values an argument of this name usually has, best first; nothing where the name says nothing."""
    word = name.lower().strip("_")
    return next((values for pattern, values in _NAMES if re.fullmatch(pattern, word)), ())


def by_annotation(annotation: str) -> tuple[Value, ...]:
    return next((values for pattern, values in _ANNOTATIONS if re.fullmatch(pattern, annotation.strip("'\""))), ())


def told(names: Iterable[str], annotation: str) -> tuple[Value, ...]:
    """What names and an annotation say together: a name says more than a type where both are of one kind."""
    typed = by_annotation(annotation) if annotation else ()
    named = [value for name in names for value in by_name(name)]
    if not typed:
        return tuple(named)
    kinds = {_kind(v) for v in typed}
    return (*(v for v in named if _kind(v) in kinds), *typed)


def likely(name: str, annotation: str, default: Any, has_default: bool) -> tuple[Value, ...]:
    """Candidates for an argument: annotation, then its own default, then its name, then a tensor."""
    found: list[Value] = []
    if has_default and (default is not None or not by_annotation(annotation)):
        found.append(_L(default))
    found += [*told([name], annotation), *by_name(name)]
    if has_default and default is None:
        found.append(_L(None))
    if not found or not any(isinstance(v, Tensor) for v in found):
        found.append(_NORMAL)
    return tuple({v.code(): v for v in reversed(found)}[code] for code in dict.fromkeys(v.code() for v in found))


def _kind(value: Value) -> str:
    return type(value.value if isinstance(value, Literal) else value).__name__
