"""Every line of a corpus is given, counted, or an error that names file and line."""

from __future__ import annotations

import contextlib
import gzip
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lookleft.data.corpus import (
    EMPTY,
    TOO_LONG,
    Corpus,
    JsonLines,
    JsonPairs,
    LeftOut,
    Line,
    Pair,
    ParallelPairs,
    Summary,
    TextDocuments,
    TextLines,
    TsvPairs,
)
from lookleft.data.lines import count_lines
from lookleft.errors import FileError, LookleftError

PAIRS = [("I am home.", "मैं घर पर हूँ।"), ("Yes", "हाँ"), ("line\u2028sep", "a\x85b"), ("d", "ड")]
EXPECTED = [Pair(source, target, n) for n, (source, target) in enumerate(PAIRS, start=1)]

SOUND = [
    "\n".join(f"{s}\t{t}" for s, t in PAIRS).encode(),
    b'{"source": "a", "target": "b", "text": "c"}\n{"en": "a", "hi": "b"}\n',
    b"One.\n\nTwo.\nEND\nEND\r\nThree.\n \n END\nFour.",
]
ONE_FILE: dict[str, Callable[[Path], Corpus[Any]]] = {
    "tsv": lambda path: TsvPairs(path, max_bytes=20),
    "tsv, empty skipped": lambda path: TsvPairs(path, skip_empty=True),
    "json pairs": lambda path: JsonPairs(path, ("en", "hi"), max_bytes=50),
    "json lines": lambda path: JsonLines(path, max_bytes=50),
    "lines": lambda path: TextLines(path, max_bytes=20),
    "documents": lambda path: TextDocuments(path, "END", max_bytes=20),
    "documents in parts": lambda path: TextDocuments(path, "END", max_chars=4),
}


@st.composite
def damaged_files(draw: st.DrawFn) -> bytes:
    """Any bytes, or a sound file, gzipped or not, with a few bytes changed in one place."""
    content = draw(st.binary(max_size=200) | st.sampled_from(SOUND))
    if draw(st.booleans()):
        content = packed(content)
    place = draw(st.integers(0, len(content)))
    return content[:place] + draw(st.binary(max_size=3)) + content[place + 1 :]


damaged = damaged_files()


def write_tsv(folder: Path, pack: Callable[[bytes], bytes]) -> Corpus[Pair]:
    file = folder / "pairs"
    file.write_bytes(pack("".join(f"{s}\t{t}\textra\n" for s, t in PAIRS).encode()))
    return TsvPairs(file)


def write_jsonl(folder: Path, pack: Callable[[bytes], bytes]) -> Corpus[Pair]:
    file = folder / "pairs"
    file.write_bytes(
        pack("".join(json.dumps({"en": s, "hi": t}) + "\n" for s, t in PAIRS).encode())
    )
    return JsonPairs(file, ("en", "hi"))


def write_parallel(folder: Path, pack: Callable[[bytes], bytes]) -> Corpus[Pair]:
    for side, name in enumerate(("en", "hi")):
        (folder / name).write_bytes(pack("\n".join(pair[side] for pair in PAIRS).encode()))
    return ParallelPairs(folder / "en", folder / "hi")


def packed(content: bytes) -> bytes:
    """Gzip without the time of day, which would give every worker other names for the tests."""
    return gzip.compress(content, mtime=0)


@pytest.mark.parametrize("write", [write_tsv, write_jsonl, write_parallel])
@pytest.mark.parametrize("pack", [bytes, packed], ids=["plain", "gzip"])
def test_pairs_are_read_with_their_lines_as_often_as_wanted(
    write: Callable[..., Corpus[Pair]], pack: Callable[[bytes], bytes], tmp_path: Path
) -> None:
    corpus = write(tmp_path, pack)
    assert list(corpus) == EXPECTED
    assert list(corpus) == EXPECTED
    for after in range(len(EXPECTED) + 1):
        assert list(corpus.read(after=after)) == EXPECTED[after:]


def test_windows_line_ends_and_a_byte_order_mark_are_not_text(tmp_path: Path) -> None:
    file = tmp_path / "x.tsv"
    file.write_bytes(b"\xef\xbb\xbfa\tb\r\nc\td\r\n")
    assert list(TsvPairs(file)) == [Pair("a", "b", 1), Pair("c", "d", 2)]


def test_lines_and_documents_of_plain_text(tmp_path: Path) -> None:
    file = tmp_path / "stories.txt"
    file.write_text("One.\n\nTwo.\n<|endoftext|>\n<|endoftext|>\nThree.\nFour.", "utf-8")
    reader = TextLines(file).read()
    assert [line.line for line in reader] == [1, 3, 4, 5, 6, 7]
    assert reader.summary.n_given == 6
    assert reader.summary.left_out == {EMPTY: LeftOut(1, [2])}
    documents = TextDocuments(file)
    reader = documents.read()
    assert list(reader) == [Line("One.\n\nTwo.", 4), Line("Three.\nFour.", 7)]
    assert reader.summary.left_out == {EMPTY: LeftOut(1, [5])}
    assert list(documents.read(after=4)) == [Line("Three.\nFour.", 7)]


def test_spaces_around_the_line_that_ends_a_document_do_not_count(tmp_path: Path) -> None:
    file = tmp_path / "stories.txt"
    file.write_text("One.\n --- \nTwo.\n---\n", "utf-8")
    for end in ("---", " ---", "--- \n"):
        assert [document.text for document in TextDocuments(file, end)] == ["One.", "Two."]
        assert TextDocuments(file, end).has_end()
    assert not TextDocuments(file, "----").has_end()


@pytest.mark.parametrize("between", ["", "\n \n"], ids=["nothing", "blank lines"])
def test_a_document_cut_at_its_last_line_leaves_no_empty_one(between: str, tmp_path: Path) -> None:
    file = tmp_path / "stories.txt"
    long = "0123456789\n" * 2
    file.write_text(f"{long}{between}END\nEND\n{long}{between}END\nlast\nEND\n", "utf-8")
    corpus = TextDocuments(file, "END", max_chars=15)
    reader = corpus.read()
    given = list(reader)
    assert [document.text for document in given] == [long.strip(), long.strip(), "last"]
    second_end = 4 + between.count("\n")
    assert reader.summary.left_out == {EMPTY: LeftOut(1, [second_end])}
    for document in given:
        again = corpus.read(after=document.line)
        list(again)
        assert all(line == second_end for line in left_out_lines(again.summary))


def left_out_lines(summary: Summary) -> list[int]:
    return [line for found in summary.left_out.values() for line in found.first_lines]


def test_a_summary_counts_a_line_once_however_often_it_is_read(tmp_path: Path) -> None:
    file = tmp_path / "x.txt"
    file.write_text(f"One.\n\nTwo.\n{'x' * 99}\n\n", "utf-8")
    summary = Summary()
    for _ in range(4):
        list(TextLines(file, max_bytes=50).read(summary=summary))
    assert summary == Summary(2, {EMPTY: LeftOut(2, [2, 5]), TOO_LONG: LeftOut(1, [4])})


def test_a_long_document_comes_in_parts_that_can_be_skipped_to(tmp_path: Path) -> None:
    file = tmp_path / "long.txt"
    lines = [f"line {n}" for n in range(40)]
    file.write_text("\n".join(lines), "utf-8")
    corpus = TextDocuments(file, max_chars=50)
    parts = list(corpus)
    assert len(parts) > 3
    assert "\n".join(part.text for part in parts).split("\n") == lines
    assert list(corpus.read(after=parts[1].line)) == parts[2:]


def test_json_lines_give_the_string_under_their_key(tmp_path: Path) -> None:
    file = tmp_path / "x.jsonl"
    file.write_text('{"body": "a\\nb"}\n\n{"body": " "}\n', "utf-8")
    reader = JsonLines(file, "body").read()
    assert list(reader) == [Line("a\nb", 1)]
    assert reader.summary.left_out == {EMPTY: LeftOut(2, [2, 3])}
    file.write_text('{"body": "a", "text": "b"}\n', "utf-8")
    assert list(JsonLines(file, "body")) == [Line("b", 1)]


@pytest.mark.parametrize(
    ("record", "given"),
    [
        ({"source": "a", "target": "b"}, ("a", "b")),
        ({"en": "a", "hi": "b"}, ("a", "b")),
        ({"source": "a", "target": "b", "en": "c", "hi": "d"}, ("a", "b")),
        ({"source": "tatoeba", "en": "a", "hi": "b"}, ("a", "b")),  # where it comes from
        ({"source": "a", "hi": "b"}, ("a", "b")),
    ],
)
def test_other_keys_are_taken_where_source_and_target_are_not_both_there(
    record: dict[str, str], given: tuple[str, str], tmp_path: Path
) -> None:
    (tmp_path / "x").write_text(json.dumps(record))
    assert list(JsonPairs(tmp_path / "x", ("en", "hi"))) == [Pair(*given, 1)]


def test_records_without_the_keys_are_told_with_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "x").write_text('{"en": "a", "hi": "b"}')
    with pytest.raises(FileError, match=r"x:1: no 'source'; its keys are 'en', 'hi'\. Do that$"):
        list(JsonPairs(tmp_path / "x", key_remedy="Do that"))
    with pytest.raises(FileError, match=r"no 'target'; its keys are 'en', 'hi'$"):
        list(JsonPairs(tmp_path / "x", ("en", "de")))
    with pytest.raises(FileError, match=r"x:1: no 'text'; its keys are 'en', 'hi'\. Do that$"):
        list(JsonLines(tmp_path / "x", remedy="Do that"))


@pytest.mark.parametrize("pack", [bytes, gzip.compress], ids=["plain", "gzip"])
def test_lines_too_long_are_counted_and_the_rest_goes_on(
    pack: Callable[[bytes], bytes], tmp_path: Path
) -> None:
    file = tmp_path / "x.tsv"
    at_the_limit = "a" * 48 + "\t" + "b" * 51
    text = f"a\tb\n{'x' * 101}\n{at_the_limit}\n{'y' * 3_000_000}\nc\td\r\n{'z' * 500}"
    file.write_bytes(pack(text.encode()))
    reader = TsvPairs(file, max_bytes=100).read()
    assert [pair.line for pair in reader] == [1, 3, 5]
    assert reader.summary.n_given == 3
    assert reader.summary.left_out == {TOO_LONG: LeftOut(3, [2, 4, 6])}
    assert str(reader.summary) == "longer than a line may be 3 (line 2, 4, 6)"


@pytest.mark.parametrize(
    ("content", "corpus", "reason"),
    [
        (b"a\tb\nc\n", TsvPairs, r'x:2: has 1 of .* name both: \["x", "OTHER"\]'),
        (b"a\tb\n \tc\n", TsvPairs, r"x:2: the source side is empty"),
        (b"a\tb\n\n", TsvPairs, r"x:2: the source and target side is empty"),
        (
            b"a\tb\nab\xffc\td\n",
            TsvPairs,
            r"x:2: byte 3 of the line is 0xFF, which is not UTF-8.* iconv -f latin1 -t utf-8 FILE",
        ),
        ("a\tb\n".encode("utf-16"), TsvPairs, r"x:1: byte 1 .* iconv -f utf-16 -t utf-8 FILE"),
        (b'{"source": "a", "target": ""}', JsonPairs, r"x:1: the target side is empty"),
        (b'{"source": "a"}', JsonPairs, r"x:1: no 'target'; its keys are 'source'"),
        (b'{"source": 1, "target": "b"}', JsonPairs, r"x:1: 'source' is int, not a string"),
        (b'{"source": "\\ud800", "target": "b"}', JsonPairs, r"half a surrogate pair"),
        (b"{", JsonPairs, r"x:1: is not valid JSON"),
        (b'{"text": ' + b"[" * 40 + b"]" * 40 + b"}", JsonLines, r"x:1: is nested deeper"),
        (packed(b"a\tb\n" * 9999)[:-20], TsvPairs, r"x: cannot be read on behind line"),
        (packed(b"a\tb\n")[:-6] + b"\0" * 6, TsvPairs, r"x: cannot be read on behind line"),
    ],
)
def test_a_bad_line_is_an_error_with_file_and_line(
    content: bytes, corpus: Callable[[Path], Corpus[Any]], reason: str, tmp_path: Path
) -> None:
    (tmp_path / "x").write_bytes(content)
    with pytest.raises(FileError, match=reason):
        list(corpus(tmp_path / "x"))


def test_empty_sides_can_be_skipped_but_are_counted(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("a\tb\n\tc\n\nd\te\n", "utf-8")
    reader = TsvPairs(tmp_path / "x", skip_empty=True).read()
    assert [pair.line for pair in reader] == [1, 4]
    assert reader.summary.left_out == {EMPTY: LeftOut(2, [2, 3])}


def test_missing_files_and_folders_are_refused(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="No such file"):
        list(TextLines(tmp_path / "gone"))
    with pytest.raises(FileError, match="not a regular file"):
        list(TextLines(tmp_path))


def test_drifted_sides_give_both_counts_and_the_empty_line(tmp_path: Path) -> None:
    source, target = tmp_path / "dev.en", tmp_path / "dev.hi"
    source.write_text("".join(f"line {n}\n" for n in range(1, 1001)), "utf-8")
    lines = [f"पंक्ति {n}" for n in range(1, 999)]
    lines[416] = ""
    target.write_text("\n".join(lines), "utf-8")
    with pytest.raises(FileError) as caught:
        next(iter(ParallelPairs(source, target)))
    assert str(caught.value) == (
        "the two sides have different lengths\n"
        f"  {source} has 1,000 lines, {target} has 998."
        " First place they seem to drift: line 417\n"
        f"  (an empty line in {target}). Fix the file, or use one .tsv so lines cannot drift."
    )


@pytest.mark.parametrize("shorter", ["en", "de"])
def test_a_lost_line_of_real_text_is_found_nearby(
    shorter: str, corpora: Path, tmp_path: Path
) -> None:
    for language in ("en", "de"):
        text = gzip.decompress((corpora / "multi30k" / f"val.{language}.gz").read_bytes())
        lines = text.decode().splitlines(keepends=True)
        if language == shorter:
            del lines[499]
        (tmp_path / language).write_text("".join(lines), "utf-8")
    with pytest.raises(FileError, match="drift: line") as caught:
        list(ParallelPairs(tmp_path / "en", tmp_path / "de"))
    place = int(str(caught.value).split("drift: line ")[1].split("\n")[0])
    assert abs(place - 500) <= 10


def test_the_real_corpora_read_whole(corpora: Path) -> None:
    folder = corpora / "multi30k"
    assert len(list(ParallelPairs(folder / "train.en.gz", folder / "train.de.gz"))) == 29_000
    reader = TsvPairs(corpora / "en-hi" / "train.tsv.gz").read()
    assert sum(1 for _ in reader) == 135_051
    assert not reader.summary.left_out
    assert len(list(TextDocuments(corpora / "tinystories" / "valid.txt"))) == 101


@settings(deadline=10_000, suppress_health_check=[HealthCheck.function_scoped_fixture])
@pytest.mark.parametrize("kind", ONE_FILE)
@given(data=st.data())
def test_any_bytes_give_records_or_a_lookleft_error(
    kind: str, tmp_path: Path, data: st.DataObject
) -> None:
    (tmp_path / "x").write_bytes(data.draw(damaged))
    corpus = ONE_FILE[kind](tmp_path / "x")
    with contextlib.suppress(LookleftError):
        given = list(corpus)
        assert [record.line for record in given] == sorted({record.line for record in given})
        for record in given:  # whoever goes on behind it gets the rest
            rest = [other for other in given if other.line > record.line]
            assert list(corpus.read(after=record.line)) == rest


@settings(deadline=10_000, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(source=damaged, target=damaged, skips=st.booleans())
def test_any_bytes_in_two_files_give_pairs_or_a_lookleft_error(
    tmp_path: Path, source: bytes, target: bytes, skips: bool
) -> None:
    (tmp_path / "x").write_bytes(source)
    (tmp_path / "y").write_bytes(target)
    corpus = ParallelPairs(tmp_path / "x", tmp_path / "y", max_bytes=20, skip_empty=skips)
    with contextlib.suppress(LookleftError):
        reader = corpus.read()
        n_given = sum(1 for _ in reader)
        left_out = sum(found.count for found in reader.summary.left_out.values())
        assert n_given + left_out == count_lines(tmp_path / "x")


@pytest.mark.parametrize("n_left", [95, 60, 40])
def test_a_side_that_ends_early_is_said_to_end(n_left: int, tmp_path: Path) -> None:
    draw = random.Random(1)
    words = [" ".join("word" for _ in range(draw.randint(1, 30))) for _ in range(100)]
    (tmp_path / "en").write_text("\n".join(words))
    (tmp_path / "hi").write_text("\n".join(words[:n_left]))
    with pytest.raises(FileError, match=rf"line {n_left + 1}\n.*hi ends before it"):
        list(ParallelPairs(tmp_path / "en", tmp_path / "hi"))
