"""A call as bytes, taken before it runs, that another process can run again.

Functions and classes that can be imported go by name, others (made in a factory, of a script) go whole. Tensors go as
they are for the call: values, strides, dtype and whether they require grad, without history and without the rest of
the memory they look into. What is one object among the arguments is one object again, also where it is a parameter of
a module beside it.
"""

from __future__ import annotations

import ctypes
import importlib.machinery
import io
import marshal
import pickle
import sys
from types import CodeType, FunctionType
from typing import Any

import torch

from gradsmith.reach.inputs.record._describe import kind_of, tensors_in
from gradsmith.reach.inputs.record._private import is_unreal, unseen

__all__ = ["MOST_BYTES", "Unreal", "Unsaved", "dumps", "importable", "loads", "require_cloudpickle"]

MOST_BYTES = 64 << 20  # of one call
_MAINS = ("__main__", "__mp_main__")


class Unsaved(Exception):
    """A call cannot be saved; the message says which argument, and why."""


class Unreal(Exception):
    """Among the arguments is a tensor of a trace or a transform: there is no call to save."""


def require_cloudpickle() -> Any:
    try:
        import cloudpickle  # type: ignore[import-untyped,unused-ignore]
    except ImportError:
        raise Unsaved("cloudpickle is not installed; install it with: pip install 'gradsmith[record]'") from None
    return cloudpickle


def dumps(subject: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bytes:
    """One call as bytes.

    Args:
        subject: The function itself where it has to go along; None where it is found by its name.

    Raises:
        Unsaved, Unreal
    """
    require_cloudpickle()
    if any(is_unreal(tensor) for tensor in tensors_in((args, kwargs))):
        raise Unreal
    if (size := sum(t.numel() * t.element_size() for t in tensors_in((args, kwargs)))) > MOST_BYTES:
        raise Unsaved(f"its arguments hold {size >> 20} MB; at most {MOST_BYTES >> 20} MB are saved")
    with unseen():
        try:
            return _pickled((subject, args, kwargs))
        except Unreal:
            raise
        except Exception as error:  # noqa: BLE001  (the objects are the program's own, and so are their errors)
            raise Unsaved(_culprit(subject, args, kwargs) or f"it cannot be saved: {_told(error)}") from None


def loads(data: bytes) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
    """Subject, args and kwargs of a call, anew at each call. It runs what the file says: load only files you trust."""
    subject, args, kwargs = pickle.loads(data)
    return subject, args, kwargs


def importable(thing: Any) -> bool:
    """Whether another process finds a class or function under its name."""
    module, found = getattr(thing, "__module__", None), None
    if not isinstance(module, str) or module in _MAINS or not _findable(module):
        return False
    found = sys.modules.get(module)
    for part in thing.__qualname__.split("."):
        found = getattr(found, part, None)
    return found is thing


def _findable(module: str) -> bool:
    """Whether a module is found by its name, and not only there because someone loaded its file."""
    loaded = sys.modules.get(module)
    if loaded is None:
        return False
    if module in sys.builtin_module_names or getattr(loaded, "__file__", None) is None:
        return True
    if module not in _KNOWN:
        try:
            parent, _, _ = module.rpartition(".")
            path = list(sys.modules[parent].__path__) if parent else None
            place = importlib.machinery.PathFinder.find_spec(module, path)
            _KNOWN[module] = place is not None and (not parent or _findable(parent))
        except Exception:  # noqa: BLE001  (finders and modules of the program)
            _KNOWN[module] = True
    return _KNOWN[module]


_KNOWN: dict[str, bool] = {}


def _culprit(subject: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    """The argument that cannot be saved, or the function itself."""
    named = [(f"argument {place}", value) for place, value in enumerate(args, start=1)] + list(kwargs.items())
    if subject is not None:
        named.append(("the function itself", subject))
    for name, value in named:
        try:
            _pickled(value)
        except Exception as error:  # noqa: BLE001
            kind = f", {kind_of(value)}," if value is not subject else ""
            return f"{name}{kind} cannot be saved: {_told(error)}"
    return ""


def _told(error: BaseException) -> str:
    try:
        text = " ".join(str(error).split())
    except Exception:  # noqa: BLE001
        text = ""
    if isinstance(error, Unsaved):
        return text
    return f"{type(error).__name__}: {text[:200]}" if text else type(error).__name__


# --- writing -----------------------------------------------------------------------------------------


class _Bounded(io.BytesIO):
    """It stops an object that drags a whole data set along."""

    def write(self, data: Any) -> int:
        if self.tell() + len(data) > MOST_BYTES:
            raise Unsaved(f"it holds more than {MOST_BYTES >> 20} MB")
        return super().write(data)


def _pickled(value: Any) -> bytes:
    file = _Bounded()
    pickler = _pickler_class()(file, protocol=5)
    registered: list[Any] = pickler.by_value
    try:
        pickler.dump(value)
    finally:
        for module in registered:
            require_cloudpickle().unregister_pickle_by_value(module)
    return file.getvalue()


_PICKLER: list[Any] = []


def _pickler_class() -> Any:
    """Made at first use: cloudpickle is an extra."""
    if not _PICKLER:
        cloudpickle = require_cloudpickle()

        class Pickler(cloudpickle.Pickler):  # type: ignore[misc,name-defined,unused-ignore]
            def __init__(self, *args: Any, **kwargs: Any) -> None:
                super().__init__(*args, **kwargs)
                self.by_value: list[Any] = []

            def reducer_override(self, thing: Any) -> Any:
                if type(thing) in (torch.Tensor, torch.nn.Parameter):
                    if thing.layout is torch.strided and not thing.is_quantized and not thing.is_nested:
                        return _reduced(thing)
                    if thing.requires_grad:  # which torch does not keep with every layout
                        return torch.Tensor.requires_grad_, (thing.detach(),)
                elif isinstance(thing, torch.Tensor) and is_unreal(thing):
                    raise Unreal
                elif isinstance(thing, type) and "_forward_cls" in vars(thing):
                    # What runs the backward of a Function is made anew, with an identity of its own, beside it.
                    return getattr, (vars(thing)["_forward_cls"], "_backward_cls")
                elif isinstance(thing, CodeType):
                    return marshal.loads, (marshal.dumps(thing),)  # cloudpickle would forget which file it is from
                elif isinstance(thing, (type, FunctionType)):
                    self.whole_unless_findable(thing)
                reduced = super().reducer_override(thing)
                if isinstance(thing, type) and isinstance(reduced, tuple) and reduced[1][:1] == (type(thing),):
                    return _class_of_its_own(thing, reduced)
                return reduced

            def whole_unless_findable(self, thing: Any) -> None:
                name = getattr(thing, "__module__", None)
                module = sys.modules.get(name) if isinstance(name, str) and name != "__main__" else None
                if module is None or (name not in _MAINS and _findable(str(name))) or module in self.by_value:
                    return
                if name not in cloudpickle.list_registry_pickle_by_value():
                    cloudpickle.register_pickle_by_value(module)
                    self.by_value.append(module)

        _PICKLER.append(Pickler)
    return _PICKLER[0]


def _class_of_its_own(thing: type, reduced: tuple[Any, ...]) -> tuple[Any, ...]:
    """Leave out the number by which cloudpickle knows a class again: loading would write into the live class."""
    make, (meta, name, bases, attributes, _, extra), *state = reduced
    return make, (meta, name, bases, {**attributes, "__qualname__": thing.__qualname__}, None, extra), *state


# --- tensors -----------------------------------------------------------------------------------------


def _reduced(tensor: torch.Tensor) -> tuple[Any, ...]:
    if is_unreal(tensor):
        raise Unreal
    flat = tensor.detach().resolve_conj().resolve_neg()
    size, stride, span = tuple(flat.shape), tuple(flat.stride()), _span(flat)
    if span > 4 * flat.numel():  # a column of a large table: gaps stay gaps, but small ones
        dense = flat.contiguous()
        stride = tuple(2 * s for s in dense.stride())
        flat = torch.zeros(2 * dense.numel(), dtype=dense.dtype, device=dense.device).as_strided(size, stride)
        flat.copy_(dense)
        span = _span(flat)
    if span * flat.element_size() > MOST_BYTES:
        raise Unsaved(f"it holds more than {MOST_BYTES >> 20} MB")
    flat = flat.as_strided((span,), (1,)).to("cpu", copy=True)
    data = ctypes.string_at(flat.data_ptr(), span * flat.element_size()) if span else b""
    whole = (data, flat.dtype, size, stride, tensor.device.type, tensor.requires_grad)
    return _rebuilt, (*whole, type(tensor) is torch.nn.Parameter)


def _span(tensor: torch.Tensor) -> int:
    """How many elements of memory a tensor reaches over."""
    if not tensor.numel():
        return 0
    return 1 + sum((n - 1) * s for n, s in zip(tensor.shape, tensor.stride(), strict=True))


def _rebuilt(
    data: bytes,
    dtype: torch.dtype,
    size: tuple[int, ...],
    stride: tuple[int, ...],
    device: str,
    requires_grad: bool,
    parameter: bool,
) -> torch.Tensor:
    """The tensor again, on its device where this machine has one."""
    tensor = torch.empty_strided(size, stride, dtype=dtype)
    if data:
        flat = torch.frombuffer(bytearray(data), dtype=dtype)
        with torch.no_grad():
            tensor.as_strided(flat.shape, (1,)).copy_(flat)
    here = torch.accelerator.current_accelerator(check_available=True)
    if here is not None and here.type == device:
        tensor = tensor.to(device)
    if parameter:
        return torch.nn.Parameter(tensor, requires_grad)
    return tensor.requires_grad_(requires_grad)
