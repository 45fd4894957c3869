"""Training a tokenizer: the same texts give the same file in every process, and shorter texts.

On the built-in grammar, so that it can be told without any corpus.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import get_args

import pytest
from processes import environment

from lookleft.data.phrases import PhrasePair, pairs
from lookleft.text.tokenizer import Tokenizer
from lookleft.text.train import Kind

KINDS = get_args(Kind)
# The same texts, learned from in a process of its own, where sets have another order.
ELSEWHERE = """
import sys
from pathlib import Path
from lookleft.text.tokenizer import Tokenizer

folder = Path(sys.argv[1])
texts = (folder / "texts.txt").read_text(encoding="utf-8").splitlines()
for kind in sys.argv[2:]:
    Tokenizer.train(texts, kind=kind, vocab_size=600).save(folder / "elsewhere" / kind)
"""


@pytest.fixture(scope="module")
def phrases() -> list[PhrasePair]:
    return pairs()[:500]


@pytest.fixture(scope="module")
def folder(phrases: list[PhrasePair], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with texts, and with the tokenizers that another process learned from them."""
    made = tmp_path_factory.mktemp("repeats")
    texts = [text for pair in phrases for text in (pair.english, pair.hindi)]
    (made / "texts.txt").write_text("\n".join(texts), encoding="utf-8")
    subprocess.run(
        [sys.executable, "-c", ELSEWHERE, str(made), *KINDS],
        env=environment(PYTHONHASHSEED="7"),
        check=True,
        timeout=300,
    )
    return made


def learned(texts: list[str], kind: Kind, folder: Path) -> bytes:
    Tokenizer.train(texts, kind=kind, vocab_size=600).save(folder)
    return (folder / "tokenizer.json").read_bytes()


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_texts_give_the_same_file_in_every_process(
    kind: Kind, folder: Path, tmp_path: Path
) -> None:
    texts = (folder / "texts.txt").read_text(encoding="utf-8").splitlines()
    here = learned(texts, kind, tmp_path / "one")
    assert learned(texts, kind, tmp_path / "two") == here
    assert (folder / "elsewhere" / kind / "tokenizer.json").read_bytes() == here
    if kind != "byte":  # which learns nothing
        assert learned(texts[: len(texts) // 4], kind, tmp_path / "less") != here


def test_learned_pieces_shorten_hindi(phrases: list[PhrasePair]) -> None:
    hindi = [pair.hindi for pair in phrases]
    lengths = {
        kind: sum(map(len, Tokenizer.train(hindi, kind=kind, vocab_size=1_500).encode_batch(hindi)))
        for kind in KINDS
    }
    assert lengths["bpe"] < lengths["char"] / 2
    assert lengths["unigram"] < lengths["char"] / 2
    assert lengths["char"] < lengths["byte"] / 2
