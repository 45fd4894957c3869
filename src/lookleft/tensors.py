"""Tensors in safetensors files: limits checked before anything is allocated, writes atomic.

Files are read, not mapped: a mapped file that is cut short while it is in use ends the process.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save as format_safetensors
from torch import Tensor

from lookleft.errors import FileError
from lookleft.files import (
    look_at,
    make_folder,
    parse_json,
    read_json,
    remove,
    write_atomically,
)

MAX_HEADER = 10_000_000
MAX_TENSORS = 100_000
MAX_RANK = 8
MAX_DEPTH = 32

INDEX_NAME = "model.safetensors.index.json"
FILE_NAME = "model.safetensors"

DTYPES = {
    "F64": torch.float64,
    "F32": torch.float32,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "F8_E4M3": torch.float8_e4m3fn,
    "F8_E5M2": torch.float8_e5m2,
    "I64": torch.int64,
    "I32": torch.int32,
    "I16": torch.int16,
    "I8": torch.int8,
    "U64": torch.uint64,
    "U32": torch.uint32,
    "U16": torch.uint16,
    "U8": torch.uint8,
    "BOOL": torch.bool,
}


@dataclass(frozen=True)
class Entry:
    """What the header says of one tensor."""

    dtype: torch.dtype
    shape: tuple[int, ...]
    place: int  # of its first byte in the file

    @property
    def n_bytes(self) -> int:
        return math.prod(self.shape) * self.dtype.itemsize


class TensorFile:
    """A safetensors file whose header was checked; tensors are read when they are asked for."""

    def __init__(self, path: Path) -> None:
        self.path, self.entries = path, read_header(path)

    def read(self, name: str) -> Tensor:
        """One tensor, in memory of its own."""
        entry = self.entries[name]
        return self._read(entry.dtype, entry.shape, entry.place)

    def read_rows(self, name: str, start: int, stop: int) -> Tensor:
        """Rows start to stop of a tensor, and no other byte of it."""
        entry = self.entries[name]
        n_bytes = entry.n_bytes // max(entry.shape[0], 1)  # of a row
        shape = (stop - start, *entry.shape[1:])
        return self._read(entry.dtype, shape, entry.place + start * n_bytes)

    def _read(self, dtype: torch.dtype, shape: tuple[int, ...], place: int) -> Tensor:
        tensor = torch.empty(shape, dtype=dtype)
        raw = tensor.flatten().view(torch.uint8).numpy().data
        try:
            with self.path.open("rb") as file:
                file.seek(place)
                n_read = file.readinto(raw)
        except OSError as error:
            raise FileError(f"{self.path}: cannot be read: {error.strerror}") from error
        if n_read < len(raw):
            raise FileError(f"{self.path}: was cut short while it was read")
        return tensor


def read_tensors(path: Path) -> dict[str, Tensor]:
    """All tensors of one safetensors file, by name."""
    file = TensorFile(path)
    return {name: file.read(name) for name in file.entries}


def read_folder(folder: Path) -> dict[str, Tensor]:
    """All tensors of a model folder: one file, or the shards that its index names."""
    index = folder / INDEX_NAME
    if look_at(index) == "nothing":
        if look_at(folder / FILE_NAME) == "nothing":
            raise FileError(f"{folder}: has no {FILE_NAME}; weights of other kinds are not read")
        return read_tensors(folder / FILE_NAME)
    weight_map = read_json(index, max_bytes=MAX_HEADER, max_depth=MAX_DEPTH).get("weight_map")
    if not isinstance(weight_map, dict) or not all(isinstance(v, str) for v in weight_map.values()):
        raise FileError(f"{index}: has no weight_map of names to file names")
    tensors: dict[str, Tensor] = {}
    for shard in sorted(set(weight_map.values())):
        if Path(shard).name != shard:
            raise FileError(
                f"{index}: {shard!r} is no plain file name; shards lie beside the index"
            )
        tensors.update(read_tensors(folder / shard))
    missing = sorted(set(weight_map) - set(tensors))
    if missing:
        raise FileError(f"{index}: promises {missing[0]!r}, which is in none of the files")
    return tensors


def write_folder(folder: Path, tensors: Mapping[str, Tensor]) -> None:
    """Write all tensors of a model into its folder, as one file that `read_folder` reads."""
    make_folder(folder)
    write_tensors(folder / FILE_NAME, tensors)
    # Of an older model that was written in parts: it would be taken for this one.
    remove(folder / INDEX_NAME)


def write_tensors(path: Path, tensors: Mapping[str, Tensor]) -> None:
    """Write the tensors atomically; no two may share memory, because the file cannot say so."""
    plain = {name: tensor.detach().contiguous() for name, tensor in tensors.items()}
    write_atomically(path, format_safetensors(plain, metadata={"format": "pt"}))


def read_header(path: Path) -> dict[str, Entry]:
    """The tensors that a file declares, in their order in it.

    Refuses a header that is too large, lies about sizes, or asks for too much.
    """
    if look_at(path) == "other":  # opening a pipe would wait for ever
        raise FileError(f"{path}: is not a regular file")
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            start = file.read(8)
            length = struct.unpack("<Q", start)[0] if len(start) == 8 else None
            if length is None or length > min(MAX_HEADER, size - 8):
                raise FileError(
                    f"{path}: is no safetensors file, or truncated: it has {size:,} bytes and "
                    f"declares a header of {length:,} (limit {MAX_HEADER:,})"
                    if length is not None
                    else f"{path}: has {size} bytes, too few for a safetensors file"
                )
            header = parse_json(file.read(length), where=f"{path} (header)", max_depth=MAX_DEPTH)
    except OSError as error:
        raise FileError(f"{path}: cannot be read: {error.strerror}") from error
    entries = {name: entry for name, entry in header.items() if name != "__metadata__"}
    if len(entries) > MAX_TENSORS:
        raise FileError(f"{path}: declares {len(entries):,} tensors, the limit is {MAX_TENSORS:,}")
    start = 8 + length
    found = {
        name: _read_entry(path, name, entry, start, n_bytes=size - start)
        for name, entry in entries.items()
    }
    ordered = sorted(found.items(), key=lambda item: (item[1].place, item[1].n_bytes))
    for name, entry in ordered:
        if entry.place != start:
            raise FileError(
                f"{path}: is not a valid safetensors file: tensor {name!r} begins at byte "
                f"{entry.place:,}, the one before it ends at {start:,}"
            )
        start += entry.n_bytes
    if start != size:
        raise FileError(
            f"{path}: is not a valid safetensors file: its tensors end at byte {start:,} of "
            f"{size:,}"
        )
    return dict(ordered)


def _read_entry(path: Path, name: str, entry: Any, start: int, n_bytes: int) -> Entry:
    """One tensor: its type and rank, and that its bytes are as many as its shape needs."""
    fields = entry if isinstance(entry, dict) else {}
    shape: Any = fields.get("shape")
    offsets: Any = fields.get("data_offsets")
    if not _is_counts(shape) or not _is_counts(offsets) or len(offsets) != 2:
        raise FileError(f"{path}: the entry of tensor {name!r} has no valid shape and data_offsets")
    if len(shape) > MAX_RANK:
        raise FileError(f"{path}: tensor {name!r} has rank {len(shape)}, the limit is {MAX_RANK}")
    if not offsets[0] <= offsets[1] <= n_bytes:
        raise FileError(
            f"{path}: tensor {name!r} claims bytes {offsets[0]:,} to {offsets[1]:,}, the file has "
            f"{n_bytes:,}"
        )
    dtype = DTYPES.get(str(fields.get("dtype")))
    if dtype is None:
        raise FileError(
            f"{path}: tensor {name!r} is of type {fields.get('dtype')!r:.40}, which is not read; "
            f"types are {', '.join(DTYPES)}"
        )
    found = Entry(dtype, tuple(shape), start + offsets[0])
    if found.n_bytes != offsets[1] - offsets[0]:
        raise FileError(
            f"{path}: is not a valid safetensors file: tensor {name!r} of shape {shape} needs "
            f"{found.n_bytes:,} bytes and has {offsets[1] - offsets[0]:,}"
        )
    return found


def _is_counts(value: Any) -> bool:
    return isinstance(value, list) and all(type(n) is int and n >= 0 for n in value)


def as_float(tensor: Tensor, dtype: torch.dtype) -> Tensor:
    """Weights in the type to compute with; other types (ids, masks) as they are."""
    return tensor.to(dtype) if tensor.is_floating_point() else tensor
