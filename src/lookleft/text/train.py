"""Learn a vocabulary from text; four kinds, none of which knows an unknown character."""

from __future__ import annotations

import json
from collections import Counter, deque
from collections.abc import Iterable, Iterator
from typing import Any, Literal, get_args

import tokenizers
from tokenizers import decoders, models, normalizers, pre_tokenizers, trainers

from lookleft.errors import InputError
from lookleft.text.limits import MAX_PIECE_BYTES, MAX_PIECES
from lookleft.text.nfc import nfc
from lookleft.text.split import OWN_PATTERN
from lookleft.text.vocab import OWN_NAMES

Kind = Literal["bpe", "unigram", "char", "byte"]

BYTE_PIECES = tuple(f"<0x{byte:02X}>" for byte in range(256))
_FIRST_PIECES = (*OWN_NAMES.values(), *BYTE_PIECES)
_MAX_CHARACTERS = MAX_PIECE_BYTES // 4  # of a piece: a character has at most four bytes


def train_backend(texts: Iterable[str], *, kind: Kind, vocab_size: int) -> Any:
    """A `tokenizers.Tokenizer` with at most `vocab_size` pieces, specials and bytes counted.

    Ids: 0 to 4 are the specials, 5 to 260 the bytes, then what was learned. Characters that found
    no place are spelt by their UTF-8 bytes. The same texts give the same vocabulary.
    """
    if kind not in get_args(Kind):
        raise InputError(f"unknown kind of tokenizer {kind!r}; known are {get_args(Kind)}")
    room = vocab_size - len(_FIRST_PIECES)
    n_learned, least = (
        (0, "the special tokens and the 256 bytes")
        if kind == "byte"
        else (1, "the special tokens, the 256 bytes and one piece")
    )
    if vocab_size > MAX_PIECES or room < n_learned:
        raise InputError(
            f"vocab_size={vocab_size} must lie between {len(_FIRST_PIECES) + n_learned} ({least})"
            f" and {MAX_PIECES:,} for kind={kind!r}"
        )
    if kind == "byte":
        deque(_checked(texts), maxlen=0)  # nothing to learn, but what is wrong with them is found
        model = _model_of_merges([], [])
    elif kind == "char":
        model = _model_of_merges(_commonest_characters(_checked(texts), room), [])
    elif kind == "bpe":
        model = _learn_merges(_checked(texts), room)
    else:
        model = _learn_unigram(_checked(texts), room)
    return _assemble(model)


def _checked(texts: Iterable[str]) -> Iterator[str]:
    """The texts in NFC; what is none is an error."""
    for number, text in enumerate(texts):
        if not isinstance(text, str):
            raise InputError(f"text {number} is a {type(text).__name__}, not a string")
        try:
            text.encode("utf-8")
        except UnicodeEncodeError as error:
            raise InputError(
                f"text {number} has a lone surrogate {text[error.start]!r}"
                f" at character {error.start}"
            ) from error
        yield nfc(text)


def _assemble(model: Any) -> Any:
    backend = _splitting(model)
    backend.normalizer = normalizers.NFC()  # for others who read the file: see nfc.py
    backend.decoder = decoders.Sequence([decoders.ByteFallback(), decoders.Fuse()])
    backend.add_special_tokens(
        [tokenizers.AddedToken(name, special=True, normalized=False) for name in OWN_NAMES.values()]
    )
    return backend


def _splitting(model: Any) -> Any:
    backend = tokenizers.Tokenizer(model)
    backend.pre_tokenizer = pre_tokenizers.Split(tokenizers.Regex(OWN_PATTERN), "isolated")
    return backend


def _model_of_merges(characters: list[str], merges: list[tuple[str, str]]) -> Any:
    pieces = [*_FIRST_PIECES, *characters, *dict.fromkeys(a + b for a, b in merges)]
    return models.BPE(
        vocab={piece: id for id, piece in enumerate(pieces)},
        merges=merges,
        byte_fallback=True,
        unk_token=OWN_NAMES["unk"],
    )


def _commonest_characters(texts: Iterable[str], room: int) -> list[str]:
    counts: Counter[str] = Counter()
    for text in texts:
        counts.update(text)
    ranked = sorted(counts, key=lambda character: (-counts[character], character))
    return sorted(ranked[:room])


def _learn_merges(texts: Iterable[str], room: int) -> Any:
    learner = _splitting(models.BPE())
    trainer = trainers.BpeTrainer(
        vocab_size=room,
        limit_alphabet=max(1, room // 2),  # rare characters must not crowd out the merges
        max_token_length=_MAX_CHARACTERS,  # `load` refuses longer ones
        show_progress=False,
    )
    learner.train_from_iterator(texts, trainer)
    learned = json.loads(learner.to_str())["model"]
    merges = [(left, right) for left, right in learned["merges"]]
    merged = {left + right for left, right in merges}
    return _model_of_merges(sorted(set(learned["vocab"]) - merged), merges)


def _learn_unigram(texts: Iterable[str], room: int) -> Any:
    seen: set[str] = set()

    def watched() -> Iterator[str]:
        for text in texts:
            seen.update(text)
            yield text

    learner = _splitting(models.Unigram())
    trainer = trainers.UnigramTrainer(vocab_size=room, show_progress=False, max_piece_length=16)
    try:
        learner.train_from_iterator(watched(), trainer)
    except Exception as error:
        if len(seen) < room:
            raise
        raise InputError(
            f"the texts have {len(seen):,} different characters, and a unigram vocabulary needs a"
            f" place for each: vocab_size must be over {len(_FIRST_PIECES) + len(seen):,}, or take"
            " kind='bpe', which spells rare ones in bytes"
        ) from error
    learned = _steadied(json.loads(learner.to_str())["model"]["vocab"])
    learned.sort(key=lambda entry: (-entry[1], entry[0]))
    lowest = learned[-1][1] if learned else 0.0
    first = [(piece, lowest if piece in BYTE_PIECES else 0.0) for piece in _FIRST_PIECES]
    return models.Unigram(
        vocab=[*first, *learned],
        unk_id=_FIRST_PIECES.index(OWN_NAMES["unk"]),
        byte_fallback=True,
    )


def _steadied(entries: list[tuple[str, float]]) -> list[tuple[str, float]]:
    """The learned pieces without what chance put into their scores.

    The library sums in the order of a randomly seeded hash table, which shows in the last digits,
    and gives characters that it keeps only because it saw them the lowest score plus 0.0001, plus
    0.0002, and so on in that same order. Digits are rounded away, those characters made equal.
    """
    lowest = min((score for _, score in entries), default=0.0)
    n_characters = sum(len(piece) == 1 for piece, _ in entries)

    def is_kept_by_force(piece: str, score: float) -> bool:
        step = (score - lowest) / 1e-4
        return len(piece) == 1 and step < n_characters and abs(step - round(step)) < 1e-6

    return [
        (piece, round(lowest if is_kept_by_force(piece, score) else score, 6))
        for piece, score in entries
    ]
