"""Tensors in safetensors files: limits checked before anything is allocated, writes atomic."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from safetensors.torch import save as format_safetensors
from torch import Tensor

from lookleft.errors import FileError
from lookleft.files import look_at, parse_json, read_json, write_atomically

MAX_HEADER = 10_000_000
MAX_TENSORS = 100_000
MAX_RANK = 8
MAX_DEPTH = 32

INDEX_NAME = "model.safetensors.index.json"
FILE_NAME = "model.safetensors"


def read_tensors(path: Path) -> dict[str, Tensor]:
    """All tensors of one safetensors file, by name."""
    check_header(path)
    try:
        with safe_open(str(path), framework="pt") as file:
            # Copied out of the mapped file one by one: what is loaded does not change with it.
            return {name: file.get_tensor(name).clone() for name in file.keys()}  # noqa: SIM118
    except Exception as error:  # the parser raises several kinds for a lying header
        raise FileError(f"{path}: is not a valid safetensors file: {error}") from error


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


def write_tensors(path: Path, tensors: Mapping[str, Tensor]) -> None:
    """Write the tensors atomically; no two may share memory, because the file cannot say so."""
    plain = {name: tensor.detach().contiguous() for name, tensor in tensors.items()}
    write_atomically(path, format_safetensors(plain, metadata={"format": "pt"}))


def check_header(path: Path) -> None:
    """Refuse a file whose header is too large, lies about sizes, or asks for too much."""
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
    for name, entry in entries.items():
        _check_entry(path, name, entry, n_bytes=size - 8 - length)


def _check_entry(path: Path, name: str, entry: Any, n_bytes: int) -> None:
    """One tensor: its rank, and that its bytes lie inside the file."""
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


def _is_counts(value: Any) -> bool:
    return isinstance(value, list) and all(type(n) is int and n >= 0 for n in value)


def as_float(tensor: Tensor, dtype: torch.dtype) -> Tensor:
    """Weights in the type to compute with; other types (ids, masks) as they are."""
    return tensor.to(dtype) if tensor.is_floating_point() else tensor
