"""One long text as rows: in every epoch nothing is lost or comes twice, wherever it is cut."""

from __future__ import annotations

import contextlib
import gzip
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lookleft.data.stream import read_stream, stream_examples
from lookleft.errors import ConfigError, LookleftError
from lookleft.text.tokenizer import Tokenizer

TEXT = "All the world's a stage,\nAnd all the men and women merely players;\n" * 3


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer.train([TEXT], kind="char", vocab_size=300)


def test_every_token_but_the_first_is_predicted_once(tokenizer: Tokenizer) -> None:
    ids = tokenizer.encode(TEXT)
    rows = [example.target for example in stream_examples(TEXT, tokenizer, length=10)(0, 0)]
    assert ids[:1] + [token for row in rows for token in row[1:]] == ids
    assert {len(row) for row in rows[:-1]} == {11}
    assert [row[0] for row in rows[1:]] == [row[-1] for row in rows[:-1]]


@pytest.mark.parametrize("n_characters", [2, 3, 11, 12, 25, len(TEXT)])
@pytest.mark.parametrize("length", [1, 10, 64])
def test_with_a_seed_no_epoch_loses_a_token_be_the_text_shorter_than_a_row(
    n_characters: int, length: int, tokenizer: Tokenizer
) -> None:
    text = TEXT[:n_characters]
    ids = tokenizer.encode(text)
    read = stream_examples(text, tokenizer, length, seed=5)
    for epoch in range(30):
        rows = [example.target for example in read(epoch, 0)]
        assert ids[:1] + [token for row in rows for token in row[1:]] == ids
        assert all(len(row) == length + 1 for row in rows[1:-1])
        assert all(2 <= len(row) <= length + 1 for row in rows)
        assert [row[0] for row in rows[1:]] == [row[-1] for row in rows[:-1]]


def test_each_epoch_is_cut_elsewhere_and_a_position_is_found_again(tokenizer: Tokenizer) -> None:
    read = stream_examples(TEXT, tokenizer, length=10, seed=5)
    epochs = [list(read(epoch, 0)) for epoch in range(8)]
    assert len({tuple(epoch[0].target) for epoch in epochs}) > 3
    assert list(read(2, 4)) == epochs[2][4:]
    assert [example.line for example in epochs[0]] == list(range(1, len(epochs[0]) + 1))


def test_a_file_is_read_with_its_line_ends_and_in_parts(tmp_path: Path) -> None:
    path = tmp_path / "play.txt"
    path.write_text(TEXT, encoding="utf-8")
    assert read_stream(path) == TEXT
    first, last = read_stream(path, 0.0, 0.9), read_stream(path, 0.9, 1.0)
    assert first + last == TEXT
    assert len(last) == pytest.approx(len(TEXT) / 10, abs=1)


@pytest.mark.parametrize("pack", [bytes, gzip.compress], ids=["plain", "gzip"])
def test_a_text_may_be_a_single_line_of_megabytes(
    pack: Callable[[bytes], bytes], tmp_path: Path
) -> None:
    path = tmp_path / "text8"
    path.write_bytes(pack(b"anarchism " * 200_000))
    assert read_stream(path) == "anarchism " * 200_000 + "\n"


def test_a_text_too_short_to_predict_anything_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "short.txt"
    path.write_text("ab", encoding="utf-8")
    with pytest.raises(ConfigError, match="too little text"):
        read_stream(path, 0.9, 1.0)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    content=st.binary(max_size=60) | st.text(max_size=60).map(str.encode),
    is_packed=st.booleans(),
    length=st.integers(1, 20),
)
def test_any_bytes_give_rows_that_lose_nothing_or_a_lookleft_error(
    tmp_path: Path, tokenizer: Tokenizer, content: bytes, is_packed: bool, length: int
) -> None:
    path = tmp_path / "x"
    path.write_bytes(gzip.compress(content) if is_packed else content)
    with contextlib.suppress(LookleftError):
        text = read_stream(path, 0.0, 0.8)
        ids = tokenizer.encode(text)
        rows = [
            example.target for example in stream_examples(text, tokenizer, length, seed=1)(3, 0)
        ]
        assert ids[:1] + [token for row in rows for token in row[1:]] == ids
