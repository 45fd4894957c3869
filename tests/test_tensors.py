"""Safetensors files: read with limits, refused in one sentence when they lie."""

from __future__ import annotations

import json
import os
import struct
import tracemalloc
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import save

from lookleft.errors import FileError, LookleftError
from lookleft.tensors import (
    DTYPES,
    MAX_HEADER,
    MAX_TENSORS,
    TensorFile,
    read_folder,
    read_tensors,
    write_tensors,
)

TENSORS = {"a": torch.arange(6.0).view(2, 3), "b": torch.tensor([1, 2, 3])}


def with_header(header: object, body: bytes = b"\0" * 24) -> bytes:
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + body


def test_what_is_written_is_read(tmp_path: Path) -> None:
    write_tensors(tmp_path / "x", TENSORS)
    again = read_tensors(tmp_path / "x")
    assert set(again) == set(TENSORS)
    assert all(torch.equal(again[name], tensor) for name, tensor in TENSORS.items())
    assert [file.name for file in tmp_path.iterdir()] == ["x"]


def test_what_was_read_stays_when_its_file_changes(tmp_path: Path) -> None:
    write_tensors(tmp_path / "x", TENSORS)
    again = read_tensors(tmp_path / "x")
    with (tmp_path / "x").open("r+b") as file:
        file.write(bytes((tmp_path / "x").stat().st_size))
    assert all(torch.equal(again[name], tensor) for name, tensor in TENSORS.items())


def test_a_file_cut_short_while_it_is_read_is_an_error_not_a_crash(tmp_path: Path) -> None:
    write_tensors(tmp_path / "x", TENSORS)
    file = TensorFile(tmp_path / "x")
    os.truncate(tmp_path / "x", 100)
    with pytest.raises(FileError, match="was cut short while it was read"):
        [file.read(name) for name in file.entries]


def test_rows_of_a_tensor_are_read_alone(tmp_path: Path) -> None:
    write_tensors(tmp_path / "x", {"a": torch.arange(24.0).view(6, 2, 2)})
    file = TensorFile(tmp_path / "x")
    whole = file.read("a")
    for start in range(7):
        for stop in range(start, 7):
            assert torch.equal(file.read_rows("a", start, stop), whole[start:stop])


@pytest.mark.parametrize("dtype", DTYPES.values(), ids=str)
def test_every_type_comes_back_as_it_was(dtype: torch.dtype, tmp_path: Path) -> None:
    tensor = torch.arange(16).view(2, 8).to(torch.float32).to(dtype)
    write_tensors(tmp_path / "x", {"a": tensor, "b": tensor[0, 0].clone(), "c": tensor[:0].clone()})
    again = read_tensors(tmp_path / "x")
    assert again["a"].dtype == dtype
    assert again["b"].shape == ()
    assert again["c"].shape == (0, 8)
    assert torch.equal(again["a"].view(torch.uint8), tensor.view(torch.uint8))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "too few"),
        (b"1234567", "too few"),
        (struct.pack("<Q", 1 << 62) + b"{}", "declares a header of 4,611,686,018,427,387,904"),
        (struct.pack("<Q", 100) + b"{}", "truncated"),
        (struct.pack("<Q", 2) + b"[]", "not an object"),
        (struct.pack("<Q", 2) + b"{x", "not valid JSON"),
        (with_header({"a": 5}), "'a' has no valid shape"),
        (with_header({"a": {"dtype": "F32", "shape": [-1], "data_offsets": [0, 4]}}), "no valid"),
        (
            with_header({"a": {"dtype": "F32", "shape": [1] * 9, "data_offsets": [0, 4]}}),
            "rank 9, the limit is 8",
        ),
        (
            with_header({"a": {"dtype": "F32", "shape": [99], "data_offsets": [0, 396]}}),
            "claims bytes 0 to 396, the file has 24",
        ),
        (
            with_header({"a": {"dtype": "F32", "shape": [5], "data_offsets": [0, 24]}}),
            "not a valid safetensors file",
        ),
        (
            with_header({"a": {"dtype": "F32", "shape": [5], "data_offsets": [4, 24]}}),
            "begins at byte 74, the one before it ends at 70",
        ),
        (
            with_header({"a": {"dtype": "F32", "shape": [5], "data_offsets": [0, 20]}}),
            "its tensors end at byte 90 of 94",
        ),
        (
            with_header({"a": {"dtype": "F4", "shape": [6], "data_offsets": [0, 24]}}),
            "of type 'F4', which is not read; types are F64, F32",
        ),
    ],
)
def test_a_file_that_lies_is_refused(data: bytes, message: str, tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(data)
    with pytest.raises(FileError, match=message):
        read_tensors(tmp_path / "x")


def test_a_pipe_is_refused_instead_of_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "x")
    with pytest.raises(FileError, match="is not a regular file"):
        read_tensors(tmp_path / "x")


def write_with_long_header(path: Path, length: int) -> None:
    """A file of which nothing but the length of its header can be wrong: it ends in spaces."""
    text = json.dumps({"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}).encode()
    with path.open("wb") as file:
        file.write(struct.pack("<Q", length) + text.ljust(length) + b"\0" * 8)


def test_a_header_is_read_up_to_the_limit_and_refused_beyond_it(tmp_path: Path) -> None:
    write_with_long_header(tmp_path / "longest", MAX_HEADER)
    assert torch.equal(read_tensors(tmp_path / "longest")["a"], torch.zeros(2))
    write_with_long_header(tmp_path / "longer", MAX_HEADER + 1)
    with pytest.raises(FileError, match=r"declares a header of 10,000,001 \(limit 10,000,000\)"):
        read_tensors(tmp_path / "longer")


def test_a_header_that_is_too_long_is_refused_before_it_is_read(tmp_path: Path) -> None:
    """A hole in the file is no memory, but 11 MB of it would be."""
    with (tmp_path / "x").open("wb") as file:
        file.write(struct.pack("<Q", 11_000_000))
        file.truncate(12_000_000)
    tracemalloc.start()
    try:
        with pytest.raises(FileError, match=r"a header of 11,000,000 \(limit 10,000,000\)"):
            read_tensors(tmp_path / "x")
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()


def test_too_many_tensors_are_refused(tmp_path: Path) -> None:
    entry = {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]}
    header = {str(i): entry for i in range(MAX_TENSORS + 1)}
    (tmp_path / "x").write_bytes(with_header(header, b""))
    with pytest.raises(FileError, match=r"100,001 tensors, the limit is 100,000"):
        read_tensors(tmp_path / "x")


GOOD = save(TENSORS)


@given(place=st.integers(0, len(GOOD) - 1), byte=st.integers(0, 255))
def test_a_changed_byte_is_read_or_refused_but_never_crashes(
    place: int, byte: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.getbasetemp() / "mutant"
    path.write_bytes(GOOD[:place] + bytes([byte]) + GOOD[place + 1 :])
    try:
        tensors = read_tensors(path)
    except LookleftError:
        return
    assert sum(t.numel() * t.element_size() for t in tensors.values()) <= len(GOOD)


@given(length=st.integers(0, len(GOOD) - 1))
def test_a_truncated_file_is_refused(length: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.getbasetemp() / "short"
    path.write_bytes(GOOD[:length])
    with pytest.raises(FileError):
        read_tensors(path)


def index(folder: Path, weight_map: object) -> None:
    text = json.dumps({"weight_map": weight_map})
    (folder / "model.safetensors.index.json").write_text(text)


def test_shards_are_put_together(tmp_path: Path) -> None:
    write_tensors(tmp_path / "1.safetensors", {"a": TENSORS["a"]})
    write_tensors(tmp_path / "2.safetensors", {"b": TENSORS["b"]})
    index(tmp_path, {"a": "1.safetensors", "b": "2.safetensors"})
    assert set(read_folder(tmp_path)) == {"a", "b"}


@pytest.mark.parametrize(
    ("weight_map", "message"),
    [
        ({"a": "../1.safetensors"}, "no plain file name"),
        ({"a": "missing.safetensors"}, "cannot be read"),
        ({"z": "1.safetensors"}, "promises 'z'"),
        ([1], "no weight_map"),
        ({"a": 1}, "no weight_map"),
    ],
)
def test_an_index_that_lies_is_refused(weight_map: object, message: str, tmp_path: Path) -> None:
    write_tensors(tmp_path / "1.safetensors", {"a": TENSORS["a"]})
    index(tmp_path, weight_map)
    with pytest.raises(FileError, match=message):
        read_folder(tmp_path)
