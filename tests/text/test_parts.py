"""Tokenizers made from GGUF metadata give the ids llama.cpp gives."""

from __future__ import annotations

import json
import random
import struct
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import tokenizers
from tokenizers import models, pre_tokenizers, trainers
from weights import SMOLLM2, packaged

from lookleft.errors import FileError
from lookleft.text.split import gguf_patterns
from lookleft.text.tokenizer import Tokenizer
from lookleft.text.vocab import Specials

TEXTS = (
    "Hello world, I'm here; THEY'RE there!  'S",
    "मैं घर जा रहा हूँ । क्ष्म\u200dा १२३",
    "def f(x):\n    return x**2  # note\n\n\tif x == 10: pass",
    "12345 6 7.89 1,000 ½",
    "   leading  and   trailing   \n\n \t\r\n x ",
    "日本語 👩\u200d👩\u200d👧 \x00\x7f",
    "a\u00a0b\u3000c\u2003d",
    "\r\n\r\n a",
    "hello!!\n\n  ?? ",
    "end   ",
    "<s> </s> <|end|> <0x41>",
    " ",
    "",
)
PRE_NAMES = (
    *("gpt-2", "phi-2", "mpt", "olmo", "jais"),
    *("smollm", "starcoder", "refact", "command-r", "codeshell", "exaone", "minerva-7b"),
    *("llama-bpe", "llama3", "llama-v3", "falcon3", "dbrx", "smaug-bpe"),
    *("qwen2", "stablelm2", "deepseek-r1-qwen", "megrez"),
)


def random_texts(count: int) -> list[str]:
    draw = random.Random(0)
    characters = "aZ'sdtre  \n\r\t12९½.,!?मैंक्ष日é\u00a0\u200d👩-_"
    return ["".join(draw.choices(characters, k=draw.randint(1, 20))) for _ in range(count)]


def llama_cpp_ids(folder: Path, write: Callable[[Any], None]) -> Callable[[str], list[int]]:
    """llama.cpp's own encoding of a vocabulary that `write` puts into a GGUF file."""
    gguf = pytest.importorskip("gguf", reason="ends with pip install lookleft[gguf]")
    llama_cpp = pytest.importorskip("llama_cpp", reason="ends with pip install llama-cpp-python")
    file = folder / "vocab.gguf"
    writer = gguf.GGUFWriter(str(file), "llama")
    write(writer)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    judge = llama_cpp.Llama(str(file), vocab_only=True, verbose=False)

    def encode(text: str) -> list[int]:
        return list(judge.tokenize(text.encode(), add_bos=False, special=False))

    return encode


@pytest.fixture(scope="module")
def byte_level_parts() -> dict[str, Any]:
    """Pieces and merges learned without any cuts, so that wrong cuts change the ids."""
    learner = tokenizers.Tokenizer(models.BPE())
    learner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=700, show_progress=False, initial_alphabet=alphabet, special_tokens=["<|end|>"]
    )
    learner.train_from_iterator([*TEXTS[:-3]] * 20, trainer)
    learned = json.loads(learner.to_str())["model"]
    pieces = sorted(learned["vocab"], key=learned["vocab"].get)
    return {
        "model": "gpt2",
        "pieces": pieces,
        "types": [3] + [1] * (len(pieces) - 1),
        "merges": [f"{left} {right}" for left, right in learned["merges"]],
        "specials": Specials(bos=0, eos=0),
    }


def write_byte_level(writer: Any, parts: dict[str, Any], pre: str) -> None:
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(pre)
    writer.add_token_list(parts["pieces"])
    writer.add_token_types(parts["types"])
    writer.add_token_merges(parts["merges"])
    writer.add_bos_token_id(0)
    writer.add_eos_token_id(0)


@pytest.mark.parametrize("pre", PRE_NAMES)
def test_byte_level_ids_are_those_of_llama_cpp(
    pre: str, byte_level_parts: dict[str, Any], tmp_path: Path
) -> None:
    expected = llama_cpp_ids(tmp_path, lambda w: write_byte_level(w, byte_level_parts, pre))
    ours = Tokenizer.from_parts(**byte_level_parts, pre=pre)
    for text in (*TEXTS, *random_texts(200)):
        assert ours.encode(text) == expected(text), text
        assert ours.decode(ours.encode(text)) == text


def test_the_four_ways_to_cut_give_four_different_answers(
    byte_level_parts: dict[str, Any],
) -> None:
    answers = {
        str([Tokenizer.from_parts(**byte_level_parts, pre=pre).encode(t) for t in TEXTS])
        for pre in ("gpt-2", "smollm", "llama-bpe", "qwen2")
    }
    assert len(answers) == 4


def llama2c_vocabulary(file: Path) -> dict[str, Any]:
    """Pieces and scores of llama2.c's own file, with spaces as SentencePiece writes them."""
    data, pieces, scores = file.read_bytes(), [], []
    place = 4
    while place < len(data):
        score, size = struct.unpack_from("<fi", data, place)
        place += 8 + size
        scores.append(score)
        pieces.append(data[place - size : place].decode().replace(" ", "\u2581"))
    pieces[:3] = ["<unk>", "<s>", "</s>"]
    types = [2, 3, 3] + [6] * 256 + [1] * (len(pieces) - 259)
    return {"pieces": pieces, "scores": scores, "types": types}


@pytest.mark.parametrize("add_space_prefix", [True, False])
def test_sentencepiece_ids_are_those_of_llama_cpp(
    add_space_prefix: bool, corpora: Path, tmp_path: Path
) -> None:
    parts = llama2c_vocabulary(corpora / "weights" / "stories260K" / "tok512.bin")

    def write(writer: Any) -> None:
        writer.add_tokenizer_model("llama")
        writer.add_token_list(parts["pieces"])
        writer.add_token_scores(parts["scores"])
        writer.add_token_types(parts["types"])
        writer.add_bos_token_id(1)
        writer.add_eos_token_id(2)
        writer.add_unk_token_id(0)
        writer.add_add_space_prefix(add_space_prefix)

    expected = llama_cpp_ids(tmp_path, write)
    ours = Tokenizer.from_parts(
        model="llama",
        **parts,
        specials=Specials(unk=0, bos=1, eos=2),
        add_space_prefix=add_space_prefix,
    )
    stories = (corpora / "tinystories" / "valid.txt").read_text("utf-8").split("\n\n")[:30]
    for text in (*TEXTS, *random_texts(200), *stories):
        assert ours.encode(text) == expected(text), text
        assert ours.decode(ours.encode(text)) == text
    assert ours.encode("Once", template=True)[0] == 1


def test_types_left_out_are_guessed_from_names_and_roles(corpora: Path) -> None:
    parts = llama2c_vocabulary(corpora / "weights" / "stories260K" / "tok512.bin")
    specials = Specials(unk=0, bos=1, eos=2)
    told = Tokenizer.from_parts(model="llama", **parts, specials=specials)
    guessed = Tokenizer.from_parts(model="llama", **{**parts, "types": None}, specials=specials)
    assert [told.encode(text) for text in TEXTS] == [guessed.encode(text) for text in TEXTS]


@pytest.mark.slow
def test_smollm2_ids_are_those_of_llama_cpp_and_transformers() -> None:
    gguf = pytest.importorskip("gguf", reason="ends with pip install lookleft[gguf]")
    llama_cpp = pytest.importorskip("llama_cpp", reason="ends with pip install llama-cpp-python")
    transformers = pytest.importorskip("transformers", reason="ends with pip install lookleft[hf]")
    file = packaged(*SMOLLM2)
    fields = gguf.GGUFReader(file).fields

    def value(key: str) -> Any:
        return fields[f"tokenizer.ggml.{key}"].contents()

    ours = Tokenizer.from_parts(
        model=value("model"),
        pre=value("pre"),
        pieces=value("tokens"),
        types=value("token_type"),
        merges=value("merges"),
        specials=Specials(bos=1, eos=2, pad=2, unk=0),
        add_bos=value("add_bos_token"),
    )
    judge = llama_cpp.Llama(str(file), vocab_only=True, verbose=False)
    theirs = transformers.AutoTokenizer.from_pretrained(file.parent, gguf_file=file.name)
    for text in TEXTS:
        ids = ours.encode(text)
        assert ids == judge.tokenize(text.encode(), add_bos=False, special=False), text
        # transformers does not read tokenizer.ggml.pre, so it misplaces digits beyond ASCII.
        if "½" not in text and "१" not in text:
            encoded = theirs(text, add_special_tokens=False, split_special_tokens=True)
            assert ids == encoded.input_ids, text
    chat = "<|im_start|>user\nhi<|im_end|>"
    assert ours.encode(chat, parse_specials=True) == judge.tokenize(
        chat.encode(), add_bos=False, special=True
    )


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"model": "rwkv"}, "unknown vocabulary 'rwkv'"),
        ({"pre": "no-such-pre"}, "unknown pre-tokeniser 'no-such-pre'"),
        ({"pre": None}, "needs merges and pre"),
        ({"model": "llama"}, "needs scores"),
        ({"model": "llama", "scores": [0.0]}, "but 1 scores"),
        ({"model": "llama", "scores": [float("nan")] * 4}, "not finite"),
        ({"model": "llama", "scores": [0.0] * 4}, "neither an unknown token nor all 256"),
        ({"types": [1]}, "4 pieces but 1 types"),
        ({"types": [1, 1, 1, 99]}, "99 is not a valid PieceType"),
        ({"merges": ["a b", "a z"]}, "merge 1 is 'a z'"),
        ({"merges": ["ab"]}, "merge 0 is 'ab'"),
        ({"specials": Specials(eos=4)}, "the eos token is 4, of 4 pieces"),
        ({"pieces": ["a", "b", "ab", "a"]}, "pieces 0 and 3 are both 'a'"),
        ({"pieces": ["a", "b", "ab", "x" * 1025]}, "1,025 bytes, the limit is 1,024"),
        ({"pieces": ["a", "b", "ab", "\ud800"]}, "lone surrogate"),
    ],
)
def test_lying_parts_are_refused_with_the_reason(change: dict[str, Any], reason: str) -> None:
    sound: dict[str, Any] = {
        "model": "gpt2",
        "pre": "gpt-2",
        "pieces": ["a", "b", "ab", "<end>"],
        "merges": ["a b"],
        "specials": Specials(eos=3),
        "where": "some.gguf",
    }
    assert Tokenizer.from_parts(**sound).encode("abb") == [2, 1]
    with pytest.raises(FileError, match=reason) as caught:
        Tokenizer.from_parts(**{**sound, **change})
    assert "some.gguf" in str(caught.value)


def test_an_unknown_pre_name_is_told_which_are_known() -> None:
    with pytest.raises(FileError, match="qwen2"):
        gguf_patterns("mystery", "some.gguf")


def test_too_many_pieces_are_refused_before_anything_is_built() -> None:
    class Endless(Sequence[str]):
        def __len__(self) -> int:
            return 1_000_001

        def __getitem__(self, index: Any) -> Any:
            raise AssertionError("looked at a piece")

    with pytest.raises(FileError, match="1,000,001 pieces"):
        Tokenizer.from_parts(
            model="gpt2", pre="gpt-2", pieces=Endless(), merges=[], specials=Specials()
        )


@pytest.mark.parametrize(
    ("pieces", "reason"),
    [
        # Each piece can be cut anywhere: half a million merges out of half a megabyte.
        (["a" * length for length in range(1, 1_000)], r"made of each other in more than 18,000"),
        ([f"{number:04}" + "a" * 1_000 for number in range(999)], "too long to be cut in two"),
    ],
)
def test_a_vocabulary_made_to_take_long_is_refused_soon(pieces: list[str], reason: str) -> None:
    parts = {"pieces": ["<unk>", *pieces], "scores": [0.0] * 1_000}
    start = time.process_time()
    with pytest.raises(FileError, match=reason):
        Tokenizer.from_parts(model="llama", **parts, specials=Specials(unk=0), add_bos=False)
    assert time.process_time() - start < 1.0
