"""GGUF headers: whatever a file claims, the answer is its content or one clear error."""

from __future__ import annotations

import os
import struct
import tracemalloc
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from interop.gguf_samples import save_tiny

from lookleft.errors import ConfigError, FileError
from lookleft.interop.gguf import load_gguf
from lookleft.interop.gguf_file import read_gguf

MEGABYTE = 1 << 20
U32, STRING, ARRAY = 4, 8, 9


def string(text: bytes) -> bytes:
    return struct.pack("<Q", len(text)) + text


def pair(key: bytes, kind: int, value: bytes) -> bytes:
    return string(key) + struct.pack("<I", kind) + value


def tensor(
    name: bytes = b"x", dims: tuple[int, ...] = (8,), kind: int = 0, start: int = 0
) -> bytes:
    shape = struct.pack(f"<I{len(dims)}Q", len(dims), *dims)
    return string(name) + shape + struct.pack("<IQ", kind, start)


def header(
    *,
    pairs: tuple[bytes, ...] = (),
    tensors: tuple[bytes, ...] = (),
    version: int = 3,
    n_tensors: int | None = None,
    n_pairs: int | None = None,
) -> bytes:
    n_tensors = len(tensors) if n_tensors is None else n_tensors
    n_pairs = len(pairs) if n_pairs is None else n_pairs
    counts = struct.pack("<IQQ", version, n_tensors, n_pairs)
    return b"GGUF" + counts + b"".join(pairs) + b"".join(tensors)


def padded(data: bytes, n_more: int) -> bytes:
    """Up to the next multiple of 32, where tensors begin, and some bytes of them."""
    return data + bytes(-len(data) % 32) + bytes(n_more)


def test_a_plain_file_is_read(tmp_path: Path) -> None:
    numbers = np.arange(8, dtype="<f4")
    flags = pair(b"flags", ARRAY, struct.pack("<IQ", 7, 2) + b"\x01\x00")
    pairs = (pair(b"a", U32, struct.pack("<I", 7)), pair(b"b", STRING, string("é".encode())), flags)
    path = tmp_path / "plain.gguf"
    path.write_bytes(padded(header(pairs=pairs, tensors=(tensor(),)), 0) + numbers.tobytes())
    file = read_gguf(path)
    assert (file.integer("a", most=7), file.text("b")) == (7, "é")
    assert file.numbers("flags") == [True, False]
    assert np.array_equal(file.blocks("x").view("<f4"), numbers[None])


HUGE = struct.pack("<Q", 1 << 63)
BROKEN = {
    "empty": (b"", r"it begins with b''"),
    "another format": (b"PK\x03\x04" + bytes(64), r"begins with b'PK\\x03\\x04', not b'GGUF'"),
    "old version": (header(version=1), r"is GGUF version 1, this reads 2 or 3"),
    "big-endian": (header(version=3 << 24), r"version 50,331,648, this reads 2 or 3 \(little"),
    "only a magic": (b"GGUF", r"needs bytes 4 to 8, the file has 4"),
    "many tensors": (header(n_tensors=1 << 40), r"1,099,511,627,776 tensors, the limit is 100,000"),
    "many keys": (header(n_pairs=1 << 63), r"metadata keys, the limit is 100,000"),
    "fewer keys than said": (header(n_pairs=3), r"a number needs bytes 24 to 32, the file has 24"),
    "long string": (header(pairs=(pair(b"k", STRING, HUGE),)), r"k needs bytes .* the file has"),
    "long key": (header(pairs=(HUGE,)), r"a metadata key needs bytes 32 to 9,223,372,036,854,775,"),
    "long array of numbers": (
        header(pairs=(pair(b"k", ARRAY, struct.pack("<IQ", 10, 1 << 61)),)),
        r"k needs bytes 49 to 18,446,744,073,709,551,665",
    ),
    "long array of strings": (
        header(pairs=(pair(b"k", ARRAY, struct.pack("<IQ", STRING, 1 << 61)),)),
        r"k brings the strings to 2,305,843,009,213,693,952, the limit 1,500,000",
    ),
    "array of strings cut short": (
        header(pairs=(pair(b"k", ARRAY, struct.pack("<IQ", STRING, 9) + string(b"a")),)),
        r"a number needs bytes 58 to 66, the file has 58",
    ),
    "array in an array": (
        header(pairs=(pair(b"k", ARRAY, struct.pack("<IQ", ARRAY, 1)),)),
        r"k is an array in an array",
    ),
    "unknown kind": (header(pairs=(pair(b"k", 77, b""),)), r"k is of unknown kind 77"),
    "half true": (header(pairs=(pair(b"k", 7, b"\x02"),)), r"k is 2, neither true \(1\) nor false"),
    "not UTF-8": (
        header(pairs=(pair(b"k", STRING, string(b"\xff")),)),
        r"k is not UTF-8: b'\\xff'",
    ),
    "key twice": (header(pairs=(pair(b"k", 0, b"\x01"),) * 2), r"has the key 'k' twice"),
    "rank": (header(tensors=(tensor(dims=(1,) * 9),)), r"'x' has rank 9, the limits are 1 and 8"),
    "no rank": (header(tensors=(tensor(dims=()),)), r"'x' has rank 0"),
    "nothing in it": (header(tensors=(tensor(dims=(8, 0)),)), r"'x' has shape \(0, 8\)"),
    "unknown type": (
        header(tensors=(tensor(kind=99),)),
        r"'x' has type 99 \(unknown\), this reads",
    ),
    "unread type": (
        header(tensors=(tensor(kind=16),)),
        r"'x' has type 16 \(IQ2_XXS\), this reads F3",
    ),
    "part of a block": (
        header(tensors=(tensor(dims=(33,), kind=2),)),
        r"Q4_0 needs .* multiple of 32",
    ),
    "beyond the file": (
        padded(header(tensors=(tensor(dims=(1 << 40, 1 << 40)),)), 64),
        r"tensor 'x' needs bytes 96 to 4,835,703,278,458,516,698,824,800, the file has 160",
    ),
    "one byte short": (
        padded(header(tensors=(tensor(),)), 31),
        r"tensor 'x' needs bytes 64 to 96, the file has 95",
    ),
    "start beyond the file": (
        padded(header(tensors=(tensor(start=1 << 63),)), 64),
        r"tensor 'x' needs bytes 9,223,372,036,854,775,872 to",
    ),
    "between two starts": (
        padded(header(tensors=(tensor(start=4),)), 64),
        r"at 4, no multiple of 32",
    ),
    "one over the other": (
        padded(header(tensors=(tensor(dims=(16,)), tensor(b"y", start=32))), 64),
        r"tensor 'y' starts at byte 128, inside tensor 'x'",
    ),
    "tensor twice": (
        padded(header(tensors=(tensor(), tensor(start=32))), 64),
        r"has two tensors 'x'",
    ),
    "alignment": (
        header(pairs=(pair(b"general.alignment", U32, struct.pack("<I", 48)),)),
        r"general\.alignment is 48, not a power of 2 up to 1,048,576",
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_file_is_refused_by_its_numbers(tmp_path: Path, name: str) -> None:
    data, message = BROKEN[name]
    path = tmp_path / "broken.gguf"
    path.write_bytes(data)
    tracemalloc.start()
    try:
        with pytest.raises(FileError, match=message) as caught:
            read_gguf(path)
        assert tracemalloc.get_traced_memory()[1] < MEGABYTE
    finally:
        tracemalloc.stop()
    assert str(path) in str(caught.value)


def test_a_header_beyond_its_limit_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lookleft.interop.gguf_file.MAX_HEADER_BYTES", 100)
    path = tmp_path / "long.gguf"
    path.write_bytes(header(pairs=(pair(b"k", STRING, string(b"a" * 200)),)))
    with pytest.raises(FileError, match=r"k needs .* the limit of a header is 100"):
        read_gguf(path)


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for name, message in (("pipe", "not a regular"), (".", "not a regular"), ("no", "No such")):
        with pytest.raises(FileError, match=message):
            read_gguf(tmp_path / name)


def test_a_file_that_changes_while_it_is_read_is_refused(tmp_path: Path) -> None:
    path, _ = save_tiny(tmp_path)
    file = read_gguf(path)
    path.write_bytes(path.read_bytes()[:-4])
    with pytest.raises(FileError, match="has changed while it was read"):
        file.blocks("token_embd.weight")


# --- mutations ---

NUMBERS = st.sampled_from([0, 1, 7, 31, 33, 255, 1 << 16, (1 << 31) - 1, 1 << 32, (1 << 64) - 1])
MUTATION = st.one_of(
    st.tuples(st.just("byte"), st.integers(0, 1 << 20), st.integers(0, 255)),
    st.tuples(st.just("u32"), st.integers(0, 1 << 20), NUMBERS.map(lambda n: n % (1 << 32))),
    st.tuples(st.just("u64"), st.integers(0, 1 << 20), NUMBERS),
    st.tuples(st.just("cut"), st.integers(0, 1 << 20), st.just(0)),
    st.tuples(st.just("double"), st.integers(0, 1 << 20), st.integers(1, 64)),
)


def mutate(data: bytes, how: str, where: int, value: int) -> bytes:
    at = where % max(len(data), 1)
    if how == "cut":
        return data[:at]
    if how == "double":
        return data[:at] + data[at : at + value] + data[at:]
    new = value.to_bytes({"byte": 1, "u32": 4, "u64": 8}[how], "little")
    return data[:at] + new + data[at + len(new) :]


@dataclass(frozen=True)
class Sample:
    """A file to overwrite, and the bytes of a valid one."""

    path: Path
    data: bytes = field(repr=False)
    header_bytes: int


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Sample:
    path, _ = save_tiny(tmp_path_factory.mktemp("fuzz"), type_name="Q8_0", n_layers=1)
    first_tensor = min(tensor.start for tensor in read_gguf(path).tensors.values())
    return Sample(path, path.read_bytes(), first_tensor)


@settings(max_examples=300, deadline=1_000)
@given(mutations=st.lists(MUTATION, min_size=1, max_size=3), is_in_header=st.booleans())
def test_a_mutated_file_is_loaded_or_refused_quickly(
    sample: Sample, mutations: list[tuple[str, int, int]], is_in_header: bool
) -> None:
    data = sample.data
    for how, where, value in mutations:
        data = mutate(data, how, where % sample.header_bytes if is_in_header else where, value)
    sample.path.write_bytes(data)
    refusal = None
    tracemalloc.start()
    try:
        load_gguf(sample.path)
    except (FileError, ConfigError) as error:
        refusal = str(error)
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert refusal is None or str(sample.path) in refusal
    assert peak < 8 * MEGABYTE
