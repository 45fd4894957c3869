"""Damaged and lying tokenizer files are refused with file and reason; none crashes or hangs."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lookleft.errors import FileError, InputError, LookleftError
from lookleft.text.limits import library_errors
from lookleft.text.tokenizer import Tokenizer

SOUND = {
    kind: Tokenizer.train(["a few words", "कुछ शब्द"] * 5, kind=kind, vocab_size=280)
    for kind in ("bpe", "unigram")
}


def saved(folder: Path, kind: str = "bpe") -> Path:
    SOUND[kind].save(folder)
    return folder / "tokenizer.json"


@pytest.fixture(scope="module")
def contents(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    return {kind: saved(tmp_path_factory.mktemp(kind), kind).read_bytes() for kind in SOUND}


def change(content: dict[str, Any], *path: str | int, to: Any) -> None:
    inner: Any = content
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = to


@pytest.mark.parametrize(
    ("edit", "reason"),
    [
        (lambda c: change(c, "model", to=None), "has no model"),
        (lambda c: change(c, "model", "vocab", to=7), "neither pieces nor scored"),
        (lambda c: change(c, "model", "vocab", "x" * 2000, to=300), "2,000 bytes, the limit"),
        (lambda c: change(c, "model", "vocab", "extra", to=10**7), "10000000 is no id"),
        (lambda c: change(c, "model", "vocab", "extra", to=-1), "-1 is no id"),
        (lambda c: change(c, "model", "vocab", "extra", to=0), "two pieces have the id 0"),
        (lambda c: change(c, "model", "merges", to=[["q", "q"]]), "q"),
        (lambda c: change(c, "model", "type", to="Eval"), "tokenizer.json"),
        (lambda c: change(c, "added_tokens", to="no"), "added_tokens is not a list"),
        (lambda c: change(c, "added_tokens", 0, "id", to=77), "says id 77"),
        (lambda c: change(c, "added_tokens", 0, "content", to="<new>"), "says id 0"),
        (
            lambda c: change(c, "pre_tokenizer", "pattern", "Regex", to="a" * 5000),
            "5,000 characters",
        ),
        (lambda c: change(c, "pre_tokenizer", "pattern", "Regex", to="("), "tokenizer.json"),
    ],
)
def test_a_lying_file_is_refused_with_the_reason(
    edit: Callable[[dict[str, Any]], None], reason: str, tmp_path: Path
) -> None:
    file = saved(tmp_path)
    content = json.loads(file.read_text("utf-8"))
    edit(content)
    file.write_text(json.dumps(content), "utf-8")
    with pytest.raises(FileError, match=reason) as caught:
        Tokenizer.load(tmp_path)
    assert str(file) in str(caught.value)


def test_an_oversized_file_is_not_even_read(tmp_path: Path) -> None:
    file = saved(tmp_path)
    with file.open("r+b") as handle:
        handle.truncate((64 << 20) + 1)  # a hole: it takes no room on the disk
    with pytest.raises(FileError, match="67,108,865 bytes, the limit is 67,108,864"):
        Tokenizer.load(tmp_path)


def test_every_truncation_is_noticed(tmp_path: Path) -> None:
    file = saved(tmp_path)
    whole = file.read_bytes()
    for size in [*range(0, len(whole) - 1, 97), len(whole) - 1]:
        file.write_bytes(whole[:size])
        with pytest.raises(FileError, match=r"tokenizer\.json"):
            Tokenizer.load(tmp_path)


@pytest.mark.parametrize("kind", SOUND)
@settings(
    max_examples=150, deadline=10_000, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data())
def test_mutated_files_load_or_raise_a_lookleft_error(
    kind: str, contents: dict[str, bytes], tmp_path: Path, data: st.DataObject
) -> None:
    file = tmp_path / "tokenizer.json"
    damaged = bytearray(contents[kind])
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(0, len(damaged) - 1))
        damaged[place : place + data.draw(st.integers(0, 8))] = data.draw(st.binary(max_size=4))
    file.write_bytes(damaged)
    try:
        tokenizer = Tokenizer.load(tmp_path)
        tokenizer.decode(tokenizer.encode("a few words"))
    except LookleftError:
        pass


def test_only_errors_of_the_library_are_turned() -> None:
    with pytest.raises(KeyboardInterrupt), library_errors(FileError, "x"):
        raise KeyboardInterrupt
    with pytest.raises(InputError), library_errors(FileError, "x"):
        raise InputError("already said well")
    with pytest.raises(FileError, match="x: bad"), library_errors(FileError, "x"):
        raise Exception("bad")
