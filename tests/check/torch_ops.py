"""torch's own differentiable operations, each in an `autograd.Function`: all right, so `check` must find nothing.

Half of them are in ctx style, half have a setup_context and a generated rule for vmap; half take float32, half
float64.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, fft, linalg

from tests.check.corpus.case import Case
from tests.check.wrapping import Op, wrapped

__all__ = ["CASES", "wrapped"]


class Draw:
    """Draws the inputs of one case, the same ones each time."""

    def __init__(self, dtype: torch.dtype) -> None:
        self.dtype = dtype
        self.generator = torch.Generator().manual_seed(20)

    def __call__(self, *shape: int) -> Tensor:
        """Normal, to be differentiated; what the other methods draw is too, unless they say otherwise."""
        return self.fixed(*shape).requires_grad_()

    def fixed(self, *shape: int) -> Tensor:
        """Normal, and not to be differentiated."""
        return torch.randn(*shape, generator=self.generator, dtype=self.dtype)

    def complex(self, *shape: int) -> Tensor:
        dtype = torch.complex128 if self.dtype is torch.float64 else torch.complex64
        return torch.randn(*shape, generator=self.generator, dtype=dtype).requires_grad_()

    def positive(self, *shape: int) -> Tensor:
        """From 0.5 to 1.5."""
        return (0.5 + self._uniform(shape)).requires_grad_()

    def unit(self, *shape: int) -> Tensor:
        """From -0.9 to 0.9."""
        return (1.8 * self._uniform(shape) - 0.9).requires_grad_()

    def chances(self, *shape: int) -> Tensor:
        """From 0.1 to 0.9, and not to be differentiated."""
        return 0.1 + 0.8 * self._uniform(shape)

    def regular(self, n: int) -> Tensor:
        """A matrix far from singular."""
        return (0.3 * self.fixed(n, n) + 2 * torch.eye(n, dtype=self.dtype)).requires_grad_()

    def index(self, end: int, *shape: int) -> Tensor:
        return torch.randint(end, shape, generator=self.generator)

    def sign(self, *shape: int) -> Tensor:
        return (2 * self.index(2, *shape) - 1).to(self.dtype)

    def of(self, *values: Any) -> Tensor:
        return torch.tensor(values, dtype=self.dtype).requires_grad_()

    def _uniform(self, shape: Sequence[int]) -> Tensor:
        return torch.rand(*shape, generator=self.generator, dtype=self.dtype)


def _with_transpose(a: Tensor) -> Tensor:
    """Symmetric and positive definite."""
    return a @ a.mT + torch.eye(a.shape[-1], dtype=a.dtype, device=a.device)


def _with(op: Op, **options: Any) -> Op:
    """Like functools.partial, which torch.compile does not read within a Function."""
    return lambda *args: op(*args, **options)


MATRIX = [
    *[F.relu, F.relu6, F.selu, F.celu, F.gelu, F.silu, F.mish, F.softplus, F.softsign, F.logsigmoid, F.hardtanh],
    *[F.hardsigmoid, F.hardswish, F.tanhshrink, F.softshrink, F.hardshrink, F.rrelu, F.normalize, F.glu],
    *[torch.tanh, torch.sigmoid, torch.exp, torch.expm1, torch.sin, torch.cos, torch.atan, torch.sinh, torch.asinh],
    *[torch.erf, torch.erfc, torch.sinc, torch.square, torch.abs, torch.tril, torch.cov, torch.prod, torch.std],
    *[torch.median, torch.var_mean, torch.sum, torch.mean, linalg.norm, linalg.svdvals, linalg.pinv, linalg.qr],
    *[fft.fft, fft.rfft, fft.fft2, fft.fftshift],
]
POSITIVE = [torch.log, torch.log1p, torch.sqrt, torch.rsqrt, torch.reciprocal, torch.lgamma, torch.digamma]
UNIT = [torch.asin, torch.acos, torch.atanh, torch.erfinv]
SQUARE = [linalg.inv, linalg.det, linalg.matrix_exp, torch.trace]
PAIR = [torch.mul, torch.maximum, torch.minimum, torch.atan2, torch.hypot, torch.logaddexp, torch.kron, torch.dist]
PAIR += [F.cosine_similarity, F.pairwise_distance, F.l1_loss, F.mse_loss, torch.cdist, torch.copysign]

Make = Callable[[Draw], tuple[Any, ...]]
OPS: list[tuple[str, Op, Make]] = [
    *[(op.__name__, op, lambda d: (d(3, 4),)) for op in MATRIX],
    *[(op.__name__, op, lambda d: (d.positive(3, 4),)) for op in POSITIVE],
    *[(op.__name__, op, lambda d: (d.unit(3, 4),)) for op in UNIT],
    *[(op.__name__, op, lambda d: (d.regular(3),)) for op in SQUARE],
    *[(op.__name__, op, lambda d: (d(3, 4), d(3, 4))) for op in PAIR],
    # Elementwise with arguments.
    ("leaky_relu", F.leaky_relu, lambda d: (d(3, 4), 0.1)),
    ("elu", F.elu, lambda d: (d(3, 4), 0.7)),
    ("threshold", F.threshold, lambda d: (d(3, 4), 0.1, 2.0)),
    ("gelu tanh", lambda x: F.gelu(x, approximate="tanh"), lambda d: (d(3, 4),)),
    ("prelu", F.prelu, lambda d: (d(2, 3, 4), d.positive(3))),
    ("softmax", F.softmax, lambda d: (d(3, 4), -1)),
    ("log_softmax", F.log_softmax, lambda d: (d(3, 4), 0)),
    ("softmin", F.softmin, lambda d: (d(3, 4), 1)),
    ("clamp", torch.clamp, lambda d: (d(3, 4), -0.5, 0.5)),
    ("pow", torch.pow, lambda d: (d.positive(3, 4), d(4))),
    ("div", torch.div, lambda d: (d(3, 4), d.positive(3, 1))),
    ("addcdiv", torch.addcdiv, lambda d: (d(3, 4), d(3, 4), d.positive(4))),
    ("addcmul", torch.addcmul, lambda d: (d(3, 4), d(3, 1), d(4))),
    ("lerp", torch.lerp, lambda d: (d(3, 4), d(3, 4), d(3, 4))),
    ("xlogy", torch.xlogy, lambda d: (d(3, 4), d.positive(3, 4))),
    ("where", torch.where, lambda d: (d.index(2, 3, 4).bool(), d(3, 4), d(4))),
    ("masked_fill", torch.masked_fill, lambda d: (d(3, 4), d.index(2, 3, 4).bool(), 0.5)),
    # Normalisation.
    ("layer_norm", F.layer_norm, lambda d: (d(3, 4), (4,), d(4), d(4), 1e-5)),
    ("rms_norm", F.rms_norm, lambda d: (d(3, 4), (4,), d(4), 1e-5)),
    ("group_norm", F.group_norm, lambda d: (d(2, 4, 3), 2, d(4), d(4))),
    ("instance_norm", F.instance_norm, lambda d: (d(2, 3, 5),)),
    ("batch_norm", lambda x, w, b: F.batch_norm(x, None, None, w, b, True), lambda d: (d(5, 3), d(3), d(3))),
    ("batch_norm eval", F.batch_norm, lambda d: (d(5, 3), d.fixed(3), d.chances(3), d(3), d(3))),
    ("local_response_norm", F.local_response_norm, lambda d: (d(2, 5, 3), 3)),
    # Losses.
    ("cross_entropy", F.cross_entropy, lambda d: (d(3, 5), d.index(5, 3))),
    ("cross_entropy none", lambda x, t: F.cross_entropy(x, t, reduction="none"), lambda d: (d(3, 5), d.index(5, 3))),
    ("cross_entropy smooth", _with(F.cross_entropy, label_smoothing=0.1), lambda d: (d(3, 5), d.index(5, 3))),
    ("cross_entropy chances", _with(F.cross_entropy, reduction="sum"), lambda d: (d(3, 5), d.chances(3, 5))),
    ("nll_loss", _with(F.nll_loss, reduction="sum"), lambda d: (d(3, 5), d.index(5, 3))),
    ("mse_loss none", _with(F.mse_loss, reduction="none"), lambda d: (d(3, 4), d(3, 4))),
    ("smooth_l1_loss", _with(F.smooth_l1_loss, reduction="none"), lambda d: (d(3, 4), d(3, 4))),
    ("huber_loss", _with(F.huber_loss, reduction="sum", delta=0.7), lambda d: (d(3, 4), d(3, 4))),
    ("kl_div", _with(F.kl_div, reduction="batchmean"), lambda d: (d(3, 4), d.chances(3, 4))),
    ("bce", F.binary_cross_entropy, lambda d: (d.chances(3, 4).requires_grad_(), d.chances(3, 4))),
    ("bce logits", _with(F.binary_cross_entropy_with_logits, reduction="none"), lambda d: (d(3, 4), d.chances(3, 4))),
    ("gaussian_nll_loss", F.gaussian_nll_loss, lambda d: (d(3, 4), d.fixed(3, 4), d.positive(3, 4))),
    ("poisson_nll_loss", F.poisson_nll_loss, lambda d: (d(3, 4), d.chances(3, 4))),
    ("hinge_embedding_loss", F.hinge_embedding_loss, lambda d: (d(3, 4), d.sign(3, 4))),
    ("cosine_embedding_loss", F.cosine_embedding_loss, lambda d: (d(3, 4), d(3, 4), d.sign(3))),
    ("margin_ranking_loss", F.margin_ranking_loss, lambda d: (d(5), d(5), d.sign(5))),
    ("triplet_margin_loss", F.triplet_margin_loss, lambda d: (d(3, 4), d(3, 4), d(3, 4))),
    ("soft_margin_loss", F.soft_margin_loss, lambda d: (d(3, 4), d.sign(3, 4))),
    ("multi_margin_loss", F.multi_margin_loss, lambda d: (d(3, 5), d.index(5, 3))),
    ("multilabel_soft_margin_loss", F.multilabel_soft_margin_loss, lambda d: (d(3, 4), d.chances(3, 4))),
    # torch's own gradient of ctc_loss is right only after a log_softmax.
    (
        "ctc_loss",
        lambda x, *rest: F.ctc_loss(x.log_softmax(-1), *rest),
        lambda d: (d(6, 2, 4), 1 + d.index(3, 2, 2), (6, 6), (2, 2)),
    ),
    # Layers.
    ("linear", F.linear, lambda d: (d(3, 4), d(2, 4), d(2))),
    ("bilinear", F.bilinear, lambda d: (d(3, 2), d(3, 4), d(2, 2, 4), d(2))),
    ("conv1d", F.conv1d, lambda d: (d(2, 3, 6), d(4, 3, 3), d(4))),
    ("conv2d", F.conv2d, lambda d: (d(2, 4, 5, 5), d(4, 2, 3, 3), d(4), 2, 1, 1, 2)),
    ("conv3d", F.conv3d, lambda d: (d(1, 2, 3, 3, 3), d(2, 2, 2, 2, 2), None, 1, 1)),
    ("conv_transpose2d", F.conv_transpose2d, lambda d: (d(1, 2, 3, 3), d(2, 3, 2, 2), d(3), 2)),
    ("avg_pool2d", F.avg_pool2d, lambda d: (d(2, 2, 4, 4), 2)),
    ("max_pool1d", F.max_pool1d, lambda d: (d(2, 2, 6), 3, 2)),
    ("max_pool2d", _with(F.max_pool2d, return_indices=True), lambda d: (d(1, 2, 4, 4), 2)),
    ("adaptive_avg_pool2d", F.adaptive_avg_pool2d, lambda d: (d(1, 2, 5, 5), 3)),
    ("lp_pool2d", F.lp_pool2d, lambda d: (d.positive(1, 2, 4, 4), 2, 2)),
    ("interpolate nearest", _with(F.interpolate, scale_factor=2), lambda d: (d(1, 2, 3, 3),)),
    ("interpolate bilinear", _with(F.interpolate, mode="bilinear"), lambda d: (d(1, 2, 3, 3), (5, 4))),
    ("interpolate bicubic", _with(F.interpolate, mode="bicubic", align_corners=True), lambda d: (d(1, 1, 4, 4), 6)),
    ("pad constant", F.pad, lambda d: (d(2, 3, 4), [1, 2])),
    ("pad reflect", _with(F.pad, mode="reflect"), lambda d: (d(2, 3, 4), [1, 2])),
    ("pad circular", _with(F.pad, mode="circular"), lambda d: (d(2, 3, 4), [1, 2])),
    ("grid_sample", _with(F.grid_sample, align_corners=False), lambda d: (d(1, 2, 4, 4), d.unit(1, 3, 3, 2))),
    ("affine_grid", _with(F.affine_grid, align_corners=False), lambda d: (d(2, 2, 3), (2, 3, 3, 4))),
    ("unfold", F.unfold, lambda d: (d(1, 2, 4, 4), 2)),
    ("fold", F.fold, lambda d: (d(1, 8, 9), (4, 4), 2)),
    ("pixel_shuffle", F.pixel_shuffle, lambda d: (d(1, 4, 3, 3), 2)),
    ("embedding", F.embedding, lambda d: (d.index(6, 2, 3), d(6, 4))),
    ("embedding_bag", F.embedding_bag, lambda d: (d.index(6, 2, 3), d(6, 4))),
    ("attention", F.scaled_dot_product_attention, lambda d: (d(2, 3, 4), d(2, 5, 4), d(2, 5, 4))),
    (
        "attention causal",
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True),
        lambda d: (d(1, 2, 4, 3), d(1, 2, 4, 3), d(1, 2, 4, 3)),
    ),
    # Algebra.
    ("matmul", torch.matmul, lambda d: (d(2, 3, 4), d(4, 2))),
    ("bmm", torch.bmm, lambda d: (d(2, 3, 4), d(2, 4, 3))),
    ("addmm", torch.addmm, lambda d: (d(2), d(3, 4), d(4, 2))),
    ("einsum", lambda x, y: torch.einsum("bij,bjk->ik", x, y), lambda d: (d(2, 3, 4), d(2, 4, 3))),
    ("outer", torch.outer, lambda d: (d(3), d(4))),
    ("cross", linalg.cross, lambda d: (d(4, 3), d(4, 3))),
    ("solve", linalg.solve, lambda d: (d.regular(3), d(3, 2))),
    ("solve_triangular", lambda a, b: linalg.solve_triangular(a, b, upper=True), lambda d: (d.regular(3), d(3, 2))),
    ("cholesky", lambda a: linalg.cholesky(_with_transpose(a)), lambda d: (d(3, 3),)),
    ("logdet", lambda a: torch.logdet(_with_transpose(a)), lambda d: (d(3, 3),)),
    ("eigvalsh", lambda a: linalg.eigvalsh(_with_transpose(a)), lambda d: (d(3, 3),)),
    ("matrix_power", linalg.matrix_power, lambda d: (d.regular(3), 3)),
    ("vector_norm 3", linalg.vector_norm, lambda d: (d(3, 4), 3, 1)),
    # Reductions and scans.
    ("cumsum", torch.cumsum, lambda d: (d(3, 4), 1)),
    ("cumprod", torch.cumprod, lambda d: (d(3, 4), 0)),
    ("cummax", torch.cummax, lambda d: (d(3, 4), 1)),
    ("logcumsumexp", torch.logcumsumexp, lambda d: (d(3, 4), 1)),
    ("logsumexp", torch.logsumexp, lambda d: (d(3, 4), 1)),
    ("amax", torch.amax, lambda d: (d(3, 4), 1)),
    ("max", torch.max, lambda d: (d(3, 4), 1)),
    ("prod dim", torch.prod, lambda d: (d(3, 4), 1)),
    ("kthvalue", torch.kthvalue, lambda d: (d(3, 4), 2)),
    ("quantile", torch.quantile, lambda d: (d(3, 4), 0.3)),
    ("trapezoid", torch.trapezoid, lambda d: (d(3, 4),)),
    # Order and place.
    ("sort", torch.sort, lambda d: (d(3, 4),)),
    ("topk", torch.topk, lambda d: (d(3, 4), 2)),
    ("gather", torch.gather, lambda d: (d(3, 4), 1, d.index(4, 3, 2))),
    ("scatter", torch.scatter, lambda d: (d(3, 4), 1, torch.tensor([[2, 0], [1, 3], [3, 2]]), d(3, 2))),
    ("scatter_add", torch.scatter_add, lambda d: (d(3, 4), 1, d.index(4, 3, 2), d(3, 2))),
    ("index_select", torch.index_select, lambda d: (d(3, 4), 1, d.index(4, 5))),
    ("index_add", torch.index_add, lambda d: (d(3, 4), 0, d.index(3, 2), d(2, 4))),
    ("take_along_dim", torch.take_along_dim, lambda d: (d(3, 4), d.index(4, 3, 2), 1)),
    ("roll", torch.roll, lambda d: (d(3, 4), 1, 0)),
    ("flip", torch.flip, lambda d: (d(3, 4), (0, 1))),
    ("diff", torch.diff, lambda d: (d(3, 4),)),
    ("cat", lambda *xs: torch.cat(xs, 1), lambda d: (d(3, 2), d(3, 4))),
    ("stack", lambda *xs: torch.stack(xs), lambda d: (d(3, 4), d(3, 4))),
    ("repeat_interleave", torch.repeat_interleave, lambda d: (d(3, 4), 2, 1)),
    ("tensor_split", lambda x: [part.clone() for part in torch.tensor_split(x, 3, 1)], lambda d: (d(3, 4),)),
    # Complex numbers.
    ("irfft", fft.irfft, lambda d: (d.complex(3, 4),)),
    ("complex mul", torch.mul, lambda d: (d.complex(3, 4), d.complex(4))),
    ("complex exp", torch.exp, lambda d: (d.complex(3, 4),)),
    ("complex abs", torch.abs, lambda d: (d.complex(3, 4),)),
    ("angle", torch.angle, lambda d: (d.complex(3, 4),)),
    ("complex", torch.complex, lambda d: (d(3, 4), d(3, 4))),
    ("polar", torch.polar, lambda d: (d.positive(3, 4), d(3, 4))),
    ("complex matmul", torch.matmul, lambda d: (d.complex(3, 4), d.complex(4, 2))),
    # At a kink or a tie: torch's choice is a subgradient.
    ("relu at 0", F.relu, lambda d: (d.of(-1.0, 0.0, 2.0, 0.0),)),
    ("abs at 0", torch.abs, lambda d: (d.of(-1.0, 0.0, 2.0),)),
    ("amax tied", torch.amax, lambda d: (d.of([1.0, 2.0, 2.0], [3.0, 3.0, 3.0]), 1)),
    ("sort tied", torch.sort, lambda d: (d.of([1.0, 2.0, 2.0], [3.0, 0.0, 3.0]),)),
    ("clamp at its bound", torch.clamp, lambda d: (d.of(-1.0, -0.5, 0.2, 0.5), -0.5, 0.5)),
    ("maximum tied", torch.maximum, lambda d: (d.of(1.0, 2.0, -1.0), d.of(1.0, 0.5, -1.0))),
]


def _inputs(make: Make, dtype: torch.dtype) -> tuple[Any, ...]:
    return make(Draw(dtype))


def _case(i: int, name: str, op: Op, make: Make) -> Case:
    style = ("ctx", "setup")[i % 2]
    dtype = (torch.float32, torch.float64)[i // 2 % 2]
    return Case(f"{name}, {style}", wrapped(op, style), partial(_inputs, make, dtype))


CASES = [_case(i, *row) for i, row in enumerate(OPS)]
