"""Records of a corpus as ids, ready to be grouped into batches."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice

from lookleft.data.corpus import Corpus, Line, Pair, Summary
from lookleft.text.tokenizer import Tokenizer

_AT_ONCE = 512  # texts encoded in one call, which is faster than one by one


@dataclass(frozen=True)
class Example:
    """The ids of one record; `source` is empty for a language model."""

    source: list[int]
    target: list[int]
    line: int

    @property
    def n_ids(self) -> int:
        """Of both sides."""
        return len(self.source) + len(self.target)


Examples = Callable[[int, int], Iterator[Example]]
"""(epoch, line) -> the examples of that epoch behind that line, in a fixed order."""


def pair_examples(
    corpus: Corpus[Pair],
    source: Tokenizer,
    target: Tokenizer,
    *,
    dropout: float = 0.0,
    seed: int = 0,
    summary: Summary | None = None,
) -> Examples:
    """Pairs as ids, both sides with their end token.

    With `dropout` each epoch cuts the words anew (BPE-dropout); give 0 for validation. summary:
    counts the lines.
    """

    def read(epoch: int, after: int) -> Iterator[Example]:
        one, other = source, target
        if dropout > 0.0:
            one = source.with_dropout(dropout, seed + epoch)
            other = target.with_dropout(dropout, seed + epoch)
        records = corpus.read(after=after, summary=summary)
        while chunk := list(islice(records, _AT_ONCE)):
            sources = one.encode_batch([pair.source for pair in chunk], eos=True)
            targets = other.encode_batch([pair.target for pair in chunk], eos=True)
            for pair, source_ids, target_ids in zip(chunk, sources, targets, strict=True):
                yield Example(source_ids, target_ids, pair.line)

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
        while chunk := list(islice(records, _AT_ONCE)):
            texts = tokenizer.encode_batch([line.text for line in chunk], bos=bos, eos=eos)
            for line, ids in zip(chunk, texts, strict=True):
                yield Example([], ids, line.line)

    return read


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
