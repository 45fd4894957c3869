"""A GGUF file as it is stored: metadata, and tensors in their blocks. Knows no model.

Everything a header says is held against the file itself before a tensor is read: a size, count
or offset that cannot be true is a `FileError`. Blocks are read with plain reads, not mapped into
memory: a file cut short meanwhile is an error too, not the end of the process.
"""

from __future__ import annotations

import math
import os
import stat
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, NoReturn

import numpy as np
from numpy.typing import NDArray

from lookleft.errors import FileError

MAX_HEADER_BYTES = 64 << 20
MAX_KEYS = 100_000
MAX_TENSORS = 100_000
MAX_STRINGS = 1_500_000  # in all arrays together: pieces and merges
MAX_RANK = 8
MAX_ALIGNMENT = 1 << 20
VERSIONS = (2, 3)  # one layout; version 1 had 32-bit counts


class BlockType(NamedTuple):
    """How numbers are stored: `n_numbers` neighbours of a row in a block of `n_bytes`."""

    name: str
    n_numbers: int
    n_bytes: int


BLOCK_TYPES = {
    0: BlockType("F32", 1, 4),
    1: BlockType("F16", 1, 2),
    2: BlockType("Q4_0", 32, 18),
    3: BlockType("Q4_1", 32, 20),
    6: BlockType("Q5_0", 32, 22),
    7: BlockType("Q5_1", 32, 24),
    8: BlockType("Q8_0", 32, 34),
    10: BlockType("Q2_K", 256, 84),
    11: BlockType("Q3_K", 256, 110),
    12: BlockType("Q4_K", 256, 144),
    13: BlockType("Q5_K", 256, 176),
    14: BlockType("Q6_K", 256, 210),
    30: BlockType("BF16", 1, 2),
}
# Only to name them in errors.
_UNREAD = dict(enumerate(("Q8_K", "IQ2_XXS", "IQ2_XS", "IQ3_XXS", "IQ1_S", "IQ4_NL", "IQ3_S"), 15))
_UNREAD |= {9: "Q8_1", 22: "IQ2_S", 23: "IQ4_XS", 29: "IQ1_M", 34: "TQ1_0", 35: "TQ2_0"}

# What a metadata value is, by the number before it.
_BOOL, _STRING, _ARRAY = 7, 8, 9
_NUMBERS = {0: "<u1", 1: "<i1", 2: "<u2", 3: "<i2", 4: "<u4", 5: "<i4", 6: "<f4", _BOOL: "<u1"}
_NUMBERS |= {10: "<u8", 11: "<i8", 12: "<f8"}
_U32, _U64 = struct.Struct("<I"), struct.Struct("<Q")


@dataclass(frozen=True)
class StoredTensor:
    """Where a tensor lies in its file, and how. Shapes are those of torch: rows first."""

    name: str
    type: BlockType
    shape: tuple[int, ...]
    start: int  # bytes from the beginning of the file

    @property
    def n_rows(self) -> int:
        return math.prod(self.shape[:-1])

    @property
    def row_bytes(self) -> int:
        return self.shape[-1] // self.type.n_numbers * self.type.n_bytes

    @property
    def n_bytes(self) -> int:
        return self.n_rows * self.row_bytes


@dataclass(frozen=True)
class GGUFFile:
    """Metadata by key and tensors by name; the blocks stay on disk until asked for."""

    path: Path
    metadata: dict[str, Any]  # str, int, float, bool, list[str] or a numpy array of numbers
    tensors: dict[str, StoredTensor]
    stamp: tuple[int, int]  # size and time of change, when the header was read

    def blocks(self, name: str) -> NDArray[np.uint8]:
        """The bytes of a tensor as stored, a row each. -> (rows, bytes of a row)."""
        tensor = self.tensors[name]
        try:
            with self.path.open("rb") as file:
                if _stamp(file) != self.stamp:
                    raise FileError(f"{self.path}: has changed while it was read")
                file.seek(tensor.start)
                flat = np.fromfile(file, np.uint8, tensor.n_bytes)
        except OSError as error:
            raise FileError(f"{self.path}: cannot be read: {error.strerror}") from error
        if flat.size < tensor.n_bytes:
            raise FileError(f"{self.path}: ends inside tensor {name!r}")
        return flat.reshape(tensor.n_rows, tensor.row_bytes)

    def integer(self, key: str, *, most: int, default: int | None = None) -> int:
        """A metadata number from 0 to `most`."""
        value = self._value(key, (int,), "a whole number", default)
        if not 0 <= value <= most:
            raise FileError(f"{self.path}: {key} is {value:,}, the limit is {most:,}")
        return int(value)

    def number(self, key: str, *, default: float | None = None) -> float:
        """A metadata number, finite and above 0."""
        value = float(self._value(key, (int, float), "a number", default))
        if not 0 < value < math.inf:
            raise FileError(f"{self.path}: {key} is {value}, not a finite number above 0")
        return value

    def text(self, key: str, *, default: str | None = None) -> str:
        """A metadata string."""
        return str(self._value(key, (str,), "a string", default))

    def flag(self, key: str, *, default: bool) -> bool:
        """A metadata truth value."""
        return bool(self._value(key, (bool,), "true or false", default))

    def strings(self, key: str) -> list[str]:
        """A metadata array of strings."""
        value: list[str] = self._value(key, (list,), "an array of strings", None)
        return value

    def numbers(self, key: str) -> list[Any]:
        """A metadata array of numbers."""
        value: list[Any] = self._value(key, (np.ndarray,), "an array of numbers", None).tolist()
        return value

    def _value(self, key: str, kinds: tuple[type, ...], what: str, default: Any) -> Any:
        value = self.metadata.get(key, default)
        if value is None:
            raise FileError(f"{self.path}: has no {key}")
        if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
            given = repr(value) if isinstance(value, str | int | float) else "an array"
            raise FileError(f"{self.path}: {key} is {given:.80}, not {what}")
        return value


def read_gguf(path: str | Path) -> GGUFFile:
    """The metadata and tensors of a GGUF file, or a FileError that says what is wrong with it."""
    path = Path(path)
    try:
        if not stat.S_ISREG(path.stat().st_mode):  # opening a pipe would wait for ever
            raise FileError(f"{path}: is not a regular file")
        with path.open("rb") as file:
            stamp = _stamp(file)
            data = file.read(min(stamp[0], MAX_HEADER_BYTES))
    except OSError as error:
        raise FileError(f"{path}: cannot be read: {error.strerror}") from error
    return _Header(path, data, stamp).parse()


def _stamp(file: BinaryIO) -> tuple[int, int]:
    status = os.fstat(file.fileno())
    return status.st_size, status.st_mtime_ns


class _Header:
    """Reads values one after another from the first bytes of a file."""

    def __init__(self, path: Path, data: bytes, stamp: tuple[int, int]) -> None:
        self.path, self.data, self.stamp, self.size = path, data, stamp, stamp[0]
        self.at = 0
        self.n_strings = 0

    def parse(self) -> GGUFFile:
        if self.data[:4] != b"GGUF":
            self.fail(f"is not a GGUF file: it begins with {self.data[:4]!r}, not b'GGUF'")
        self.at = 4
        version = self.u32()
        if version not in VERSIONS:
            known = " or ".join(map(str, VERSIONS))
            self.fail(f"is GGUF version {version:,}, this reads {known} (little-endian)")
        n_tensors, n_keys = self.u64(), self.u64()
        if n_tensors > MAX_TENSORS:
            self.fail(f"declares {n_tensors:,} tensors, the limit is {MAX_TENSORS:,}")
        if n_keys > MAX_KEYS:
            self.fail(f"declares {n_keys:,} metadata keys, the limit is {MAX_KEYS:,}")
        metadata: dict[str, Any] = {}
        for _ in range(n_keys):
            key = self.string("a metadata key")
            if key in metadata:
                self.fail(f"has the key {key!r} twice")
            metadata[key] = self.value(key, self.u32())
        declared = [self.tensor() for _ in range(n_tensors)]
        tensors = self.placed(declared, metadata.get("general.alignment", 32))
        return GGUFFile(self.path, metadata, tensors, self.stamp)

    def fail(self, reason: str) -> NoReturn:
        raise FileError(f"{self.path}: {reason}")

    def take(self, n_bytes: int, what: str) -> bytes:
        """The next bytes; counts are Python integers, so none can overflow."""
        end = self.at + n_bytes
        if end > len(self.data):
            limit = f"the file has {self.size:,}"
            if self.size > len(self.data):
                limit = f"the limit of a header is {MAX_HEADER_BYTES:,}"
            self.fail(f"{what} needs bytes {self.at:,} to {end:,}, {limit}")
        taken = self.data[self.at : end]
        self.at = end
        return taken

    def u32(self) -> int:
        number: int = _U32.unpack(self.take(4, "a number"))[0]
        return number

    def u64(self) -> int:
        number: int = _U64.unpack(self.take(8, "a number"))[0]
        return number

    def string(self, what: str) -> str:
        raw = self.take(self.u64(), what)
        try:
            return raw.decode("utf-8")
        except UnicodeDecodeError:
            self.fail(f"{what} is not UTF-8: {raw[:40]!r}")

    def value(self, key: str, kind: int) -> Any:
        if kind == _STRING:
            return self.string(key)
        if kind == _ARRAY:
            return self.array(key)
        return self.numbers(key, kind, 1)[0].item()

    def array(self, key: str) -> list[str] | NDArray[Any]:
        kind, count = self.u32(), self.u64()
        if kind != _STRING:
            return self.numbers(key, kind, count)
        self.n_strings += count
        if self.n_strings > MAX_STRINGS:
            self.fail(f"{key} brings the strings to {self.n_strings:,}, the limit {MAX_STRINGS:,}")
        return self.pieces(key, count)

    def pieces(self, key: str, count: int) -> list[str]:
        """So many strings. Vocabularies are long: this is `string` without its calls."""
        data, at, found = self.data, self.at, []
        try:
            for _ in range(count):
                start = at + 8
                end = start + int.from_bytes(data[at:start], "little")
                if end > len(data):
                    raise ValueError
                found.append(data[start:end].decode("utf-8"))
                at = end
        except ValueError:  # also of a string that is not UTF-8
            self.at = at
            self.string(key)  # fails on the same bytes, and says why
        self.at = at
        return found

    def numbers(self, key: str, kind: int, count: int) -> NDArray[Any]:
        if kind not in _NUMBERS:
            what = "an array in an array" if kind == _ARRAY else f"of unknown kind {kind}"
            self.fail(f"{key} is {what}, which no model needs")
        dtype = np.dtype(_NUMBERS[kind])
        numbers = np.frombuffer(self.take(count * dtype.itemsize, key), dtype)
        if kind != _BOOL:
            return numbers
        if (numbers > 1).any():
            self.fail(f"{key} is {numbers.max()}, neither true (1) nor false (0)")
        return numbers.astype(np.bool_)

    def tensor(self) -> StoredTensor:
        """What the header says of one tensor; its start still counts from the first tensor."""
        name = self.string("the name of a tensor")
        rank = self.u32()
        if not 1 <= rank <= MAX_RANK:
            self.fail(f"tensor {name!r} has rank {rank:,}, the limits are 1 and {MAX_RANK}")
        shape = tuple(reversed([self.u64() for _ in range(rank)]))
        number, start = self.u32(), self.u64()
        if number not in BLOCK_TYPES:
            type_name = _UNREAD.get(number, "unknown")
            known = ", ".join(type.name for type in BLOCK_TYPES.values())
            self.fail(f"tensor {name!r} has type {number} ({type_name}), this reads {known}")
        type = BLOCK_TYPES[number]
        if 0 in shape or shape[-1] % type.n_numbers:
            self.fail(
                f"tensor {name!r} has shape {shape}; {type.name} needs rows of a multiple of "
                f"{type.n_numbers} numbers, and at least one"
            )
        return StoredTensor(name, type, shape, start)

    def placed(self, declared: list[StoredTensor], alignment: Any) -> dict[str, StoredTensor]:
        """The tensors where they are in the file; none leaves it, none lies over another."""
        is_power = isinstance(alignment, int) and alignment > 0 and alignment.bit_count() == 1
        if not is_power or alignment > MAX_ALIGNMENT:
            self.fail(
                f"general.alignment is {alignment!r:.80}, not a power of 2 up to {MAX_ALIGNMENT:,}"
            )
        first = -(-self.at // alignment) * alignment
        tensors: dict[str, StoredTensor] = {}
        end, before = first, "the header"
        for tensor in sorted(declared, key=lambda t: t.start):
            name, start = tensor.name, first + tensor.start
            if name in tensors:
                self.fail(f"has two tensors {name!r}")
            if tensor.start % alignment:
                self.fail(f"tensor {name!r} starts at {tensor.start:,}, no multiple of {alignment}")
            if start < end:
                self.fail(f"tensor {name!r} starts at byte {start:,}, inside {before}")
            end, before = start + tensor.n_bytes, f"tensor {name!r}"
            if end > self.size:
                self.fail(
                    f"tensor {name!r} needs bytes {start:,} to {end:,}, the file has {self.size:,}"
                )
            tensors[name] = StoredTensor(name, tensor.type, tensor.shape, start)
        return tensors
