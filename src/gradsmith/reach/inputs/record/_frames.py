"""The file of recorded calls: frames one after another, each complete in itself: a broken one costs only itself.

A frame is a mark, the lengths and the checksum of its two parts, a head in JSON that says what it is, and a body that
holds the pickled call. Reading heads needs neither torch nor the recorded package.
"""

from __future__ import annotations

import json
import os
import struct
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

__all__ = ["Frame", "append", "best", "read", "write"]

_MARK = b"\x00GSCALL1\n"
_LENGTHS = struct.Struct("<IQI")  # of the head, of the body, checksum of both
MOST_CALLS = 3  # of one function that are kept: more tell little and cost a check each


@dataclass(frozen=True)
class Frame:
    """One call, or one that could not be saved.

    The head of a call holds `id`, `file`, `line`, `call` (in words), `signature` (calls alike share it), `size` (bytes
    of its tensors), `differentiable` (whether an argument requires grad), `carried` (whether the body holds the
    function itself), `path` (folders its modules are imported from), and `why` where it could not be saved.
    """

    head: dict[str, Any]
    body: bytes = field(default=b"", repr=False)

    @property
    def id(self) -> str:
        return str(self.head.get("id", ""))

    @property
    def why(self) -> str:
        return str(self.head.get("why", ""))


def _packed(frame: Frame) -> bytes:
    head = json.dumps(frame.head).encode()
    checksum = zlib.crc32(frame.body, zlib.crc32(head))
    return b"".join((_MARK, _LENGTHS.pack(len(head), len(frame.body), checksum), head, frame.body))


def append(path: Path, frame: Frame) -> None:
    """Add a frame to a file that others may be adding to."""
    data = memoryview(_packed(frame))
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        while data:
            data = data[os.write(descriptor, data) :]
    finally:
        os.close(descriptor)


def write(path: Path, frames: Iterable[Frame]) -> None:
    """Write a file whole, or leave the one that is there."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    try:
        with draft.open("wb") as file:
            os.chmod(draft, 0o600)
            for frame in frames:
                file.write(_packed(frame))
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)


def read(path: Path) -> Iterator[Frame]:
    """The frames that are whole; what is torn or damaged is passed over."""
    data = path.read_bytes()
    at = data.find(_MARK)
    while at >= 0:
        frame, end = _unpacked(data, at + len(_MARK))
        if frame is not None:
            yield frame
        at = data.find(_MARK, end)


def _unpacked(data: bytes, start: int) -> tuple[Frame | None, int]:
    try:
        head_length, body_length, checksum = _LENGTHS.unpack_from(data, start)
    except struct.error:
        return None, start
    begin = start + _LENGTHS.size
    middle, end = begin + head_length, begin + head_length + body_length
    if end > len(data) or zlib.crc32(data[begin:end]) != checksum:
        return None, start
    try:
        head = json.loads(data[begin:middle])
    except ValueError:
        return None, start
    return (Frame(head, data[middle:end]), end) if isinstance(head, dict) else (None, end)


def best(frames: Iterable[Frame]) -> list[Frame]:
    """Of each function the calls to keep, and each reason why another could not be saved once.

    Calls that something can be differentiated in come first, then small ones; of calls alike one is kept.
    """
    calls: dict[str, dict[str, Frame]] = {}
    unsaved: dict[tuple[str, str], Frame] = {}
    for frame in frames:
        if frame.why:
            unsaved.setdefault((frame.id, frame.why), frame)
        else:
            calls.setdefault(frame.id, {}).setdefault(frame.head.get("signature", ""), frame)
    kept: list[Frame] = []
    for alike in calls.values():
        ranked = sorted(alike.values(), key=lambda f: (not f.head.get("differentiable"), f.head.get("size", 0)))
        kept += ranked[:MOST_CALLS]
    return kept + list(unsaved.values())
