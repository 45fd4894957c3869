"""Text to ids and back: one class over the `tokenizers` library, whoever made the vocabulary."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import tokenizers
from tokenizers import pre_tokenizers, processors

from lookleft.errors import FileError, InputError
from lookleft.files import make_folder, parse_json, read_bytes, write_atomically, write_json
from lookleft.once import once
from lookleft.text.dropout import BpeDropout
from lookleft.text.limits import MAX_DEPTH, MAX_FILE_BYTES, check_tokenizer_json, library_errors
from lookleft.text.nfc import Nfc, nfc, take_over
from lookleft.text.parts import backend_from_merges, backend_from_sentencepiece
from lookleft.text.train import Kind, train_backend
from lookleft.text.vocab import OWN_NAMES, Specials, read_specials


@dataclass(frozen=True)
class Encoded:
    """Ids, and for each the characters of the given text it stands for, as (start, end).

    The bytes of one character share its span; special tokens that were added have an empty one.
    """

    ids: list[int]
    offsets: list[tuple[int, int]]


class Tokenizer:
    """Encodes text as ids and decodes ids as text; never changes once made, safe in threads."""

    def __init__(self, content: str, specials: Specials) -> None:
        """Prefer `train`, `load` or `from_parts`; `content` is the text of a `tokenizer.json`."""
        self._content = content
        self._backend = _hardened(content, parse_specials=False)
        self._is_nfc = take_over(self._backend)
        self._dropout: BpeDropout | None = None
        self._size = 1 + max(self._backend.get_vocab(with_added_tokens=True).values(), default=-1)
        self.specials = specials
        for role, id in specials.as_dict().items():
            if not 0 <= id < self._size:
                raise InputError(f"the {role} token is {id}, of {self._size:,} ids")

    # --- make, load, save ---

    @classmethod
    def train(cls, texts: Iterable[str], *, kind: Kind = "bpe", vocab_size: int = 8_000) -> Self:
        """A tokenizer of at most `vocab_size` pieces, learned from `texts`.

        `"bpe"` and `"unigram"` learn parts of words, `"char"` the commonest characters, `"byte"`
        nothing. All of them normalise to NFC, spell what they do not know in bytes, and give back
        every text exactly: `decode(encode(text))` is `unicodedata.normalize("NFC", text)`.
        `transformers` makes the same ids with the same file, but of text that is not NFC and has
        marks younger than Unicode 9: these it may leave in the order they came in.
        """
        with library_errors(InputError, f"training a {kind} tokenizer"):
            backend = train_backend(texts, kind=kind, vocab_size=vocab_size)
        roles = {role: backend.token_to_id(name) for role, name in OWN_NAMES.items()}
        return cls(backend.to_str(), Specials(**roles))

    @classmethod
    def load(cls, path: str | Path, *, specials: Specials | None = None) -> Self:
        """The tokenizer of a model folder, or of one `tokenizer.json`.

        Special tokens are read from the usual files beside it unless given.
        """
        file = Path(path)
        if file.is_dir():
            file = file / "tokenizer.json"
        data = read_bytes(file, max_bytes=MAX_FILE_BYTES)
        content = parse_json(data, where=str(file), max_depth=MAX_DEPTH)
        check_tokenizer_json(content, str(file))
        with library_errors(FileError, str(file)):
            made = cls(data.decode("utf-8"), Specials())
        for entry in content.get("added_tokens") or []:
            if made.id_of(entry["content"]) != entry["id"]:  # the library renumbers, and goes on
                raise FileError(
                    f"{file}: added token {entry['content']!r} says id {entry['id']},"
                    f" but it is {made.id_of(entry['content'])}"
                )
        made.specials = specials or read_specials(file.parent, made.id_of)
        for role, id in made.specials.as_dict().items():
            if id >= len(made):
                raise FileError(f"{file}: the {role} token is {id}, of {len(made):,} ids")
        return made

    @classmethod
    def from_parts(
        cls,
        *,
        model: str,
        pieces: Sequence[str],
        specials: Specials,
        types: Sequence[int] | None = None,
        scores: Sequence[float] | None = None,
        merges: Sequence[str] | None = None,
        pre: str | None = None,
        add_space_prefix: bool = True,
        add_bos: bool | None = None,
        add_eos: bool = False,
        where: str = "tokenizer parts",
    ) -> Self:
        """The tokenizer that `tokenizer.ggml.*` in a GGUF file describes; `where` names the file.

        `model` "llama" joins pieces by `scores`; "gpt2" joins bytes by `merges` after cutting the
        text as `pre` says. `add_space_prefix` is for "llama" only. `add_bos` left out means what
        llama.cpp means: yes for "llama", no for "gpt2". A byte that has no piece in a "gpt2"
        vocabulary vanishes when encoded, as it does there; SmolLM2 lacks 21 of the rarest.
        """
        with library_errors(FileError, where):
            if model == "llama":
                if scores is None:
                    raise FileError(f"{where}: a 'llama' vocabulary needs scores")
                backend = backend_from_sentencepiece(
                    pieces, scores, types, specials, add_space_prefix=add_space_prefix, where=where
                )
            elif model == "gpt2":
                if merges is None or pre is None:
                    raise FileError(f"{where}: a 'gpt2' vocabulary needs merges and pre")
                backend = backend_from_merges(pieces, merges, types, specials, pre=pre, where=where)
            else:
                raise FileError(f"{where}: unknown vocabulary {model!r}; known are 'llama', 'gpt2'")
            made = cls(backend.to_str(), specials)
            return made.with_template(
                bos=model == "llama" if add_bos is None else add_bos, eos=add_eos
            )

    def save(self, folder: str | Path) -> None:
        """Write `tokenizer.json` and `tokenizer_config.json`, as `transformers` reads them."""
        folder = Path(folder)
        make_folder(folder)
        names = {f"{role}_token": self.piece(id) for role, id in self.specials.as_dict().items()}
        write_atomically(folder / "tokenizer.json", self._content.encode("utf-8"))
        write_json(
            folder / "tokenizer_config.json",
            {
                "tokenizer_class": "PreTrainedTokenizerFast",
                "clean_up_tokenization_spaces": False,
                **names,
            },
        )

    def with_template(self, *, bos: bool = False, eos: bool = False) -> Self:
        """A copy that adds these when asked for its template, here and in `transformers`."""
        first = [self.specials.require("bos")] if bos else []
        last = [self.specials.require("eos")] if eos else []
        frame = [*map(self.piece, first), None, *map(self.piece, last)]
        backend = tokenizers.Tokenizer.from_str(self._content)
        backend.post_processor = processors.TemplateProcessing(
            single=["$A" if part is None else part for part in frame],
            pair=[text if part is None else part for text in ("$A", "$B:1") for part in frame],
            special_tokens=[(self.piece(id), id) for id in {*first, *last}],
        )
        return type(self)(backend.to_str(), self.specials)

    def with_dropout(self, probability: float, seed: int) -> Self:
        """A copy that leaves merges out at random while encoding (BPE-dropout), for training.

        The pieces depend on `seed` and the text alone, so an interrupted run goes on the same, in
        any number of workers; take another seed for every epoch: `with_dropout` of what this gives
        with the same probability is quick.
        """
        made, before = copy.copy(self), self._dropout
        if before is not None and before.probability == probability:
            made._dropout = before.reseeded(seed)
        else:
            made._dropout = BpeDropout.of(self._content, probability, seed)
        return made

    # --- encode, decode ---

    def encode(
        self,
        text: str,
        *,
        bos: bool = False,
        eos: bool = False,
        template: bool = False,
        parse_specials: bool = False,
    ) -> list[int]:
        """The ids of `text`.

        `bos`, `eos` add the begin and end token. `template` instead adds what the vocabulary's
        makers add (`[CLS] ... [SEP]` in BERT). Text that merely looks like a special token is
        text, unless `parse_specials`.
        """
        if self._dropout is not None:
            if template or parse_specials:
                raise InputError(
                    "a tokenizer with dropout knows no template and parses no specials"
                )
            with library_errors(InputError, "encoding"):
                return self._framed(self._dropout.ids(self._normal(text)), bos, eos)
        normal = self._normal(text, parse_specials)
        ids: list[int] = self._encoding(normal, bos, eos, template, parse_specials).ids
        return self._framed(ids, bos, eos)

    def encode_batch(
        self, texts: Sequence[str], *, bos: bool = False, eos: bool = False
    ) -> list[list[int]]:
        """The ids of each text, as `encode` gives them, worked out in parallel."""
        if self._dropout is not None:
            return [self.encode(text, bos=bos, eos=eos) for text in texts]
        with library_errors(InputError, "encoding"):
            done = self._backend.encode_batch_fast(
                [self._normal(text) for text in texts], add_special_tokens=False
            )
        return [self._framed(one.ids, bos, eos) for one in done]

    def encode_with_offsets(
        self,
        text: str,
        *,
        bos: bool = False,
        eos: bool = False,
        template: bool = False,
        parse_specials: bool = False,
    ) -> Encoded:
        """The same ids, each with the span of `text` (as given, not normalised) it stands for."""
        if self._dropout is not None:
            raise InputError("a tokenizer with dropout gives no offsets")
        normal = self._normal(text, parse_specials)
        encoding = self._encoding(normal, bos, eos, template, parse_specials)
        spans = _with_folded(encoding.offsets, normal)
        if normal != text:
            spans = self._nfc[parse_specials].spans_before(spans, text)
        offsets = [*([(0, 0)] * bos), *spans, *([(len(text), len(text))] * eos)]
        return Encoded(self._framed(encoding.ids, bos, eos), offsets)

    def decode(self, ids: Sequence[int], *, keep_specials: bool = False) -> str:
        """The text of `ids`, special tokens left out unless kept.

        Bytes that make no whole character become U+FFFD.
        """
        for id in ids:
            self._check_id(id)
        with library_errors(InputError, "decoding"):
            text: str = self._backend.decode(list(ids), skip_special_tokens=not keep_specials)
        return text

    # --- look up ---

    def __len__(self) -> int:
        """The number of ids: every id is below it."""
        return self._size

    def piece(self, id: int) -> str:
        """The piece with that id as the vocabulary spells it; empty where an id was left out."""
        self._check_id(id)
        return self._backend.id_to_token(id) or ""

    def id_of(self, piece: str) -> int | None:
        """The id of a piece, special ones included, or None."""
        found: int | None = self._backend.token_to_id(piece)
        return found

    # --- inside ---

    @once
    def _parsing_backend(self) -> Any:
        backend = _hardened(self._content, parse_specials=True)
        take_over(backend)
        return backend

    @once
    def _nfc(self) -> dict[bool, Nfc]:
        """NFC where special tokens are text, and where they are parsed and stand apart."""
        added = self._backend.get_added_tokens_decoder().values()
        return {
            parsed: Nfc.apart_from([t.content for t in added if parsed or not t.special])
            for parsed in (False, True)
        }

    def _normal(self, text: str, parse_specials: bool = False) -> str:
        """The text as the backend takes it: in NFC, if the vocabulary asks for that."""
        checked = _checked(text)
        if not self._is_nfc or nfc(checked) == checked:
            return checked
        return self._nfc[parse_specials].of(checked)

    def _encoding(
        self, text: str, bos: bool, eos: bool, template: bool, parse_specials: bool
    ) -> Any:
        if template and (bos or eos):
            raise InputError("give either template or bos and eos: a template has its own")
        backend = self._parsing_backend if parse_specials else self._backend
        with library_errors(InputError, "encoding"):
            return backend.encode(text, add_special_tokens=template)

    def _framed(self, ids: list[int], bos: bool, eos: bool) -> list[int]:
        if bos:
            ids = [self.specials.require("bos"), *ids]
        if eos:
            ids = [*ids, self.specials.require("eos")]
        return ids

    def _check_id(self, id: int) -> None:
        if not 0 <= id < self._size:
            raise InputError(f"id {id} is not among the {self._size:,} of this vocabulary")


def _checked(text: str) -> str:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise InputError(
            f"the text has a lone surrogate {text[error.start]!r} at character {error.start}"
        ) from error
    return text


def _with_folded(spans: list[tuple[int, int]], text: str) -> list[tuple[int, int]]:
    """The spans, each with the characters that normalising folded into its last one.

    The library counts a letter and its accent, once they are one, as the letter alone.
    """
    longer = list(spans)
    next_start = len(text)
    for place in range(len(spans) - 1, -1, -1):
        start, end = spans[place]
        reach = end
        while start < end and reach < next_start and not text[reach].isspace():
            reach += 1
        longer[place] = (start, reach)
        if start < end and place and spans[place - 1] != (start, end):
            next_start = start
    return longer


def _hardened(content: str, *, parse_specials: bool) -> Any:
    """The tokenizer that `content` spells, made to keep text whole and apart from its specials."""
    backend = tokenizers.Tokenizer.from_str(content)
    backend.no_truncation()
    backend.no_padding()  # a file may ask for rows of any length
    if type(backend.model).__name__ == "BPE":
        backend.model.dropout = None  # a file may ask for chance; `with_dropout` has a seed
    if not parse_specials:
        backend.encode_special_tokens = True
        _cut_inside_specials(backend)
    return backend


def _cut_inside_specials(backend: Any) -> None:
    """Keep models that look up whole strings from finding a special token in plain text.

    A Unigram model would read "</s>" as its end token even as text, so it is made to see "<" and
    "/s>" apart. Merges never make a special token, so BPE needs no cut.
    """
    if type(backend.model).__name__ == "BPE":
        return
    names = [t.content for t in backend.get_added_tokens_decoder().values() if t.special]
    cuts = [f"{re.escape(name[0])}(?={re.escape(name[1:])})" for name in names if len(name) > 1]
    if not cuts:
        return
    cut = pre_tokenizers.Split(tokenizers.Regex("|".join(cuts)), "isolated")
    before = [] if backend.pre_tokenizer is None else [backend.pre_tokenizer]
    backend.pre_tokenizer = pre_tokenizers.Sequence([*before, cut])
