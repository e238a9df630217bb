"""Tensors of every shape, layout and dtype an op may meet, as hypothesis strategies."""

from __future__ import annotations

import torch
from hypothesis import strategies as st

REAL = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
COMPLEX = [torch.complex64, torch.complex128]

shapes = st.lists(st.integers(0, 4), min_size=0, max_size=4).map(tuple)
numbers = st.one_of(
    st.sampled_from([0.0, -0.0, 1.0, -1.0, 2, -3, 1e30, -1e30, 1e-45, 5e-324, 0.5]),
    st.floats(allow_nan=False, allow_infinity=False, width=32),
)
special = [0.0, -0.0, float("inf"), float("-inf"), float("nan"), 1e-45, 1.0, -1.0]


@st.composite
def tensors(draw: st.DrawFn, dtypes: list[torch.dtype] = REAL, finite: bool = False) -> torch.Tensor:
    """Random values with special ones among them, in a layout of any kind."""
    shape, dtype, seed = draw(shapes), draw(st.sampled_from(dtypes)), draw(st.integers(0, 2**16))
    generator = torch.Generator().manual_seed(seed)
    values = torch.randn(shape, generator=generator, dtype=torch.float64)
    if not finite:
        places = torch.rand(shape, generator=generator) < 0.3
        chosen = torch.tensor(special, dtype=torch.float64)[torch.randint(len(special), shape, generator=generator)]
        values = torch.where(places, chosen, values)
    if dtype.is_complex:
        values = torch.complex(values, values.flip(0) if values.dim() else values)
    tensor = values.to(dtype)
    layout = draw(st.sampled_from(["plain", "transposed", "strided", "expanded", "offset"]))
    if layout == "transposed":
        return tensor.mT if tensor.dim() > 1 else tensor
    if layout == "strided" and tensor.dim():
        return torch.stack([tensor, tensor], -1)[..., 0]
    if layout == "expanded":
        return tensor.unsqueeze(0).expand(2, *tensor.shape)
    if layout == "offset" and tensor.dim():
        return torch.cat([tensor[:0], tensor])[0:]
    return tensor


def same_bits(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Equal to the bit, nan and the sign of zero included."""
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    if a.is_complex():
        a, b = torch.view_as_real(a.resolve_conj()), torch.view_as_real(b.resolve_conj())
    return (
        a.contiguous().view(_BITS[a.element_size()]).tolist() == b.contiguous().view(_BITS[b.element_size()]).tolist()
    )


_BITS = {2: torch.int16, 4: torch.int32, 8: torch.int64}
