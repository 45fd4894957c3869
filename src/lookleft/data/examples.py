"""Records of a corpus as ids, ready to be grouped into batches."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from lookleft.data.corpus import Corpus, Line, Pair, Record, Summary
from lookleft.text.tokenizer import Tokenizer

# Encoded in one call, which is faster than one by one: so many texts, or fewer if these have so
# many characters.
_AT_ONCE = 512
_CHARACTERS_AT_ONCE = 1_000_000


@dataclass(frozen=True)
class Example:
    """The ids of one record; `source` is empty for a language model."""

    source: list[int]
    target: list[int]
    line: int
    parts: tuple[Example, ...] = ()  # the two that were joined into this one

    @property
    def n_ids(self) -> int:
        """Of both sides."""
        return len(self.source) + len(self.target)

    @property
    def apart(self) -> tuple[Example, ...]:
        """What was joined into it, or itself."""
        return self.parts or (self,)


Examples = Callable[[int, int], Iterator[Example]]
"""(epoch, line) -> the examples of that epoch behind that line, in a fixed order."""


def pair_examples(
    corpus: Corpus[Pair],
    source: Tokenizer,
    target: Tokenizer,
    *,
    dropout: float = 0.0,
    fits: Callable[[Example], bool] = lambda example: True,
    seed: int = 0,
    summary: Summary | None = None,
) -> Examples:
    """Pairs as ids, both sides with their end token.

    With `dropout` each epoch cuts the words anew (BPE-dropout); give 0 for validation. A pair that
    only fits as it is cut without dropout comes like that: which pairs are used must not depend on
    chance. summary: counts the lines.
    """

    if dropout > 0.0:  # once: the epochs share the ways to cut a word that they have drawn
        dropping = source.with_dropout(dropout, seed), target.with_dropout(dropout, seed)

    def read(epoch: int, after: int) -> Iterator[Example]:
        one, other = source, target
        if dropout > 0.0:
            one, other = (each.with_dropout(dropout, seed + epoch) for each in dropping)
        records = corpus.read(after=after, summary=summary)
        for chunk in _chunks(records, lambda pair: len(pair.source) + len(pair.target)):
            sources = one.encode_batch([pair.source for pair in chunk], eos=True)
            targets = other.encode_batch([pair.target for pair in chunk], eos=True)
            for pair, source_ids, target_ids in zip(chunk, sources, targets, strict=True):
                example = Example(source_ids, target_ids, pair.line)
                if dropout > 0.0 and not fits(example):
                    source_ids = source.encode(pair.source, eos=True)
                    target_ids = target.encode(pair.target, eos=True)
                    example = Example(source_ids, target_ids, pair.line)
                yield example

    return read


def text_examples(
    corpus: Corpus[Line],
    tokenizer: Tokenizer,
    *,
    bos: bool = False,
    eos: bool = True,
    summary: Summary | None = None,
) -> Examples:
    """Texts as ids, for a language model. summary: counts the lines."""
    if bos:
        tokenizer.specials.require("bos")
    if eos:
        tokenizer.specials.require("eos")

    def read(epoch: int, after: int) -> Iterator[Example]:
        records = corpus.read(after=after, summary=summary)
        for chunk in _chunks(records, lambda line: len(line.text)):
            texts = tokenizer.encode_batch([line.text for line in chunk], bos=bos, eos=eos)
            for line, ids in zip(chunk, texts, strict=True):
                yield Example([], ids, line.line)

    return read


def joined(first: Example, second: Example) -> Example:
    """Two pairs read as one: both sides of the first lose their end token."""
    source = first.source[:-1] + second.source
    return Example(source, first.target[:-1] + second.target, first.line, (first, second))


def _chunks(
    records: Iterable[Record], n_characters: Callable[[Record], int]
) -> Iterator[list[Record]]:
    """Records to be encoded in one call."""
    chunk: list[Record] = []
    size = 0
    for record in records:
        chunk.append(record)
        size += n_characters(record)
        if len(chunk) == _AT_ONCE or size >= _CHARACTERS_AT_ONCE:
            yield chunk
            chunk, size = [], 0
    if chunk:
        yield chunk


def kept(examples: Examples, most: int, most_ids: int) -> Examples:
    """The same examples, remembered once an epoch was read whole, if they are not too many.

    At most `most` examples are remembered, with at most `most_ids` ids.

    Reading and cutting a small corpus anew every epoch makes the training wait. Only for examples
    that are the same in each epoch: not with dropout.
    """
    memory: list[Example] | None = None

    def read(epoch: int, after: int) -> Iterator[Example]:
        nonlocal memory
        if memory is not None:
            yield from (example for example in memory if example.line > after)
            return
        seen: list[Example] | None = [] if after == 0 else None
        n_ids = 0
        for example in examples(epoch, after):
            if seen is not None:
                seen.append(example)
                n_ids += example.n_ids
                seen = seen if len(seen) <= most and n_ids <= most_ids else None
            yield example
        memory = seen

    return read
