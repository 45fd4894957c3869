"""Tokens with the text they stand for: real slices of it, words joined, bytes and signs marked."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import accumulate
from typing import Any, Literal

from lookleft.bundle import Bundle
from lookleft.explore.states import HARD_LIMIT, LIMIT, MAX_CHARACTERS, ExploreError
from lookleft.pages.fonts import has_devanagari
from lookleft.text.tokenizer import Tokenizer
from lookleft.text.vocab import BYTE_PIECE

Role = Literal["text", "start", "end", "special", "mask", "pad"]
Span = tuple[int, int]

_BROKEN = "\ufffd"  # what bytes decode to that are no whole character yet
BLANK = "␣"  # what a token of blanks alone is shown as
_JOINERS = "\u200c\u200d"
_ROLES: dict[str, Role] = {"bos": "start", "eos": "end", "mask": "mask", "pad": "pad"}


@dataclass(frozen=True)
class Token:
    """One token, and where it stands in the text; an added special token has an empty span."""

    id: int
    piece: str  # as the vocabulary spells it
    text: str  # the characters it stands for, without blanks around them
    role: Role
    start: int = 0  # in characters
    end: int = 0
    byte_start: int = 0  # in UTF-8
    byte_end: int = 0
    word: int | None = None  # tokens with one number make up one word
    byte: str | None = None  # a piece of a character, as hexadecimal bytes
    is_unknown: bool = False  # the token that stands for everything unknown
    starts_with_sign: bool = False  # a dependent sign: not a letter of its own

    @property
    def label(self) -> str:
        """What to show: its text, or its name if it has none."""
        return self.text or self.piece


@dataclass(frozen=True)
class Tokens:
    """A text and its tokens."""

    text: str
    tokens: tuple[Token, ...]
    lang: str | None = None

    @property
    def ids(self) -> list[int]:
        return [token.id for token in self.tokens]

    def to_json(self) -> dict[str, Any]:
        return {
            "text": self.text,
            "lang": self.lang,
            "tokens": [asdict(token) for token in self.tokens],
            "n": len(self.tokens),
            "limit": LIMIT,
            "hard_limit": HARD_LIMIT,
            "strange": self._strange(),
        }

    def _strange(self) -> list[dict[str, Any]]:
        """Characters that the model does not know, or knows only by their bytes."""
        found: dict[Span, dict[str, Any]] = {}
        for token in self.tokens:
            if token.byte is None and not token.is_unknown:
                continue
            found[token.start, token.end] = {
                "text": token.text,
                "start": token.start,
                "end": token.end,
                "n_bytes": token.byte_end - token.byte_start,
                "is_lost": token.is_unknown,
            }
        return list(found.values())


def read_text(bundle: Bundle, text: str, *, is_ended: bool) -> Tokens:
    """The tokens of a text as this model wants them; `is_ended`: its last one is the end token."""
    if len(text) > MAX_CHARACTERS:
        raise ExploreError(
            "bad_request",
            f"{len(text):,} characters: at most {MAX_CHARACTERS:,} are read; shorten the text",
            field="text",
        )
    if not text.strip():
        raise ExploreError("empty", "the text is empty: type a sentence, or pick an example")
    tokenizer = bundle.tokenizer
    if tokenizer is None:
        return _read_ids(bundle, text)
    encoded = tokenizer.encode_with_offsets(text, template=True)
    ids, spans = list(encoded.ids), list(encoded.offsets)
    eos = tokenizer.specials.eos
    if is_ended and eos is not None and eos not in ids:  # a template may have put its own
        ids.append(eos)
        spans.append((len(text), len(text)))
    return _labelled(bundle, ids, spans, text)


def written_text(bundle: Bundle, ids: Sequence[int], after: Tokens | None = None) -> Tokens:
    """The tokens of what a model wrote, behind the prompt it went on from."""
    given = [] if after is None else after.ids
    text = "" if after is None else after.text
    spans = [] if after is None else [(token.start, token.end) for token in after.tokens]
    if bundle.tokenizer is None:
        every = [*given, *ids]
        return _labelled(bundle, every, [(0, 0)] * len(every), " ".join(map(str, every)))
    new, added = _spans_of(bundle.tokenizer, given, ids)
    spans += [(start + len(text), end + len(text)) for start, end in new]
    return _labelled(bundle, [*given, *ids], spans, text + added)


def single(bundle: Bundle, id: int, role: Role | None = None) -> Token:
    """A token on its own, such as the one a decoder starts from."""
    token = _labelled(bundle, [id], [(0, 0)], "").tokens[0]
    return token if role is None else Token(token.id, token.piece, "", role)


def label_of(bundle: Bundle, id: int) -> str:
    """A readable name of an id among the candidates for a next token."""
    if bundle.tokenizer is None or id >= len(bundle.tokenizer):
        return str(id)
    text = bundle.tokenizer.decode([id]).strip()
    return text if text and _BROKEN not in text else bundle.tokenizer.piece(id)


def language_of(text: str) -> str | None:
    """ "hi" for text in Devanagari; other scripts do not tell which language they write."""
    return "hi" if has_devanagari(text) else None


def _spans_of(
    tokenizer: Tokenizer, given: Sequence[int], ids: Sequence[int]
) -> tuple[list[Span], str]:
    """Where each new id stands in the text that they add, and that text.

    The bytes of one character become text only when the last of them is there: they share a span.
    """
    before = len(tokenizer.decode(given))
    spans: list[Span] = []
    n_done, text = 0, ""
    for count in range(1, len(ids) + 1):
        text = tokenizer.decode([*given, *ids[:count]])[before:]
        if text.endswith(_BROKEN) and count < len(ids):
            continue
        spans += [(n_done, max(len(text), n_done))] * (count - len(spans))
        n_done = spans[-1][1]
    return spans, text


def _read_ids(bundle: Bundle, text: str) -> Tokens:
    """Ids typed as numbers, for models that came without a tokenizer."""
    parts = text.replace(",", " ").split()
    vocab_size = bundle.network.config.vocab_size
    for part in parts:
        if not part.isdecimal() or len(part) > 9 or int(part) >= vocab_size:
            raise ExploreError(
                "bad_request",
                f"{part!r:.40} is no id from 0 to {vocab_size - 1}: this model came without a "
                f'tokenizer, so type ids, as in "5 6 7"',
                field="text",
            )
    ids = [int(part) for part in parts]
    return _labelled(bundle, ids, [(0, 0)] * len(ids), text)


def _labelled(bundle: Bundle, ids: Sequence[int], spans: Sequence[Span], text: str) -> Tokens:
    """Ids and their spans as tokens."""
    tokenizer, roles = bundle.tokenizer, {}
    if tokenizer is not None:
        roles = {
            id: _ROLES.get(role, "special") for role, id in tokenizer.specials.as_dict().items()
        }
    words, n_bytes = _word_numbers(text), [0, *accumulate(len(c.encode()) for c in text)]
    tokens = []
    for place, (id, (start, end)) in enumerate(zip(ids, spans, strict=True)):
        shown, is_blank = text[start:end].strip(), text[start:end].isspace()
        if shown:  # blanks around a word are not shown, so they are not counted
            start += text[start:end].find(shown)
            end = start + len(shown)
        is_unknown = tokenizer is not None and id == tokenizer.specials.unk
        tokens.append(
            Token(
                id=id,
                piece=str(id) if tokenizer is None else _piece(tokenizer, id),
                text=BLANK * (end - start) if is_blank else shown,
                role="text" if is_unknown else roles.get(id, "text"),
                start=start,
                end=end,
                byte_start=n_bytes[start],
                byte_end=n_bytes[end],
                word=words[start] if shown else None,
                byte=None
                if tokenizer is None or not shown
                else _bytes_in(tokenizer, spans, place, id),
                is_unknown=is_unknown,
                starts_with_sign=bool(shown) and unicodedata.category(shown[0]).startswith("M"),
            )
        )
    return Tokens(text, tuple(tokens), language_of(text))


def _piece(tokenizer: Tokenizer, id: int) -> str:
    """The spelling of an id; a network may know more ids than its tokenizer."""
    return tokenizer.piece(id) if id < len(tokenizer) else str(id)


def _bytes_in(tokenizer: Tokenizer, spans: Sequence[Span], place: int, id: int) -> str | None:
    """The bytes of a piece that holds no whole character, as in "E0·A4"; else None."""
    piece = _piece(tokenizer, id)
    if found := BYTE_PIECE.fullmatch(piece):
        return found[1]
    start, end = spans[place]
    neighbours = [spans[i] for i in (place - 1, place + 1) if 0 <= i < len(spans)]
    if not any(start < other_end and other_start < end for other_start, other_end in neighbours):
        return None  # whole characters: no other piece has a part in them
    data = bytes(_BYTE_OF[letter] for letter in piece if letter in _BYTE_OF).strip()
    return "·".join(f"{byte:02X}" for byte in data) or None


def _byte_letters() -> dict[str, int]:
    """Letter -> byte, as byte-level vocabularies (GPT-2's) write bytes by visible letters."""
    visible = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    hidden = [byte for byte in range(256) if byte not in visible]
    return {chr(b): b for b in visible} | {chr(256 + n): b for n, b in enumerate(hidden)}


_BYTE_OF = _byte_letters()


def _word_numbers(text: str) -> list[int]:
    """For each character the number of its word; marks that belong to no word count alone."""
    numbers, number, was_in_word = [], -1, False
    for character in text:
        is_in_word = unicodedata.category(character)[0] in "LMN" or character in _JOINERS
        if not (is_in_word and was_in_word):
            number += 1
        was_in_word = is_in_word
        numbers.append(number)
    return numbers
