"""From the settings of a run to batches: corpora, tokenizer, feeds."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from lookleft.data.batch import Batch
from lookleft.data.bucket import WINDOW, WINDOW_IDS, ByLength, Cutter, Feed, Packed, Position, Share
from lookleft.data.corpus import Summary
from lookleft.data.cover import Pieces
from lookleft.data.examples import Examples, kept, pair_examples, text_examples
from lookleft.data.stream import stream_examples
from lookleft.errors import ConfigError
from lookleft.text.tokenizer import Tokenizer
from lookleft.train.batches import BatchMaker, cover_for
from lookleft.train.corpora import open_pairs, open_stream, open_texts
from lookleft.train.settings import Part, RunSettings

_MEASURED_AT_ONCE = 4_096  # tokens of a batch of dev at least: no gradient, so more fit


def train_tokenizer(settings: RunSettings) -> Tokenizer:
    """A tokenizer learned from the training text, both sides together unless told otherwise."""
    chosen = settings.text
    made = Tokenizer.train(_texts(settings), kind=chosen.kind, vocab_size=chosen.vocab_size)
    return made.with_template(bos=True, eos=True) if settings.task == "mlm" else made


def train_source_tokenizer(settings: RunSettings) -> Tokenizer | None:
    """A tokenizer for the source alone; None if it shares that of the target."""
    chosen = settings.text
    if chosen.joint:
        return None
    texts = (pair.source for pair in open_pairs(settings.data, "train"))
    return Tokenizer.train(texts, kind=chosen.kind, vocab_size=chosen.vocab_size)


def training_feed(
    settings: RunSettings,
    tokenizer: Tokenizer,
    start: Position | None = None,
    share: Share | None = None,
    source: Tokenizer | None = None,
) -> Feed[Any]:
    """A process's micro-batches without end, from a position on: examples, or packed rows."""
    summary = Summary()
    examples, cut = _reading(settings, tokenizer, "train", source, summary)
    seed = settings.train.seed
    return Feed(examples, cut, seed=seed, share=share, start=start, summary=summary)


def dev_batches(
    settings: RunSettings,
    tokenizer: Tokenizer,
    start_id: int,
    share: Share | None = None,
    source: Tokenizer | None = None,
    summary: Summary | None = None,
) -> Iterator[Batch]:
    """All of the dev set once, in order; what is covered up (mlm) is the same each time.

    summary: counts the lines.
    """
    share, summary = share or Share(), Summary() if summary is None else summary
    examples, cut = _reading(settings, tokenizer, "dev", source, summary)
    make = batch_maker(settings, tokenizer, start_id)
    feed = Feed(examples, cut, seed=None, n_epochs=1, share=share, summary=summary)
    for number, items in enumerate(feed):
        yield make(items, key=f"dev {number * share.world_size + share.rank}")


def check_usable(
    settings: RunSettings,
    tokenizer: Tokenizer,
    source: Tokenizer | None = None,
    n_processes: int = 1,
) -> None:
    """Raise if a process would find nothing in the training text, or in the dev set, to use."""
    parts: tuple[Part, ...] = ("train", "dev") if settings.data.dev_set is not None else ("train",)
    for part in parts:
        examples, cut = _reading(settings, tokenizer, part, source)
        n_found = 0
        for example in examples(0, 0):
            n_found += cut.n_parts(example) if cut.fits(example) else 0
            if n_found >= n_processes:
                break
        if not n_found:
            too_long = (
                f"all of it is longer than data.max_tokens = {settings.data.max_tokens} or, both "
                f"sides together, than train.tokens = {settings.train.tokens}"
            )
            why = too_long if settings.task == "translate" else "no text in it has two tokens"
            raise ConfigError(f"data.{part}: there is nothing in it to use: it is empty, or {why}")
        if n_found < n_processes:
            raise ConfigError(
                f"data.{part}: {n_found} of its texts can be used, too few for {n_processes} "
                f"processes, of which each needs one. Begin fewer, or give more text"
            )


def token_budget(settings: RunSettings, part: Part) -> int:
    """How many tokens a batch of that part may have."""
    tokens = settings.train.tokens
    return tokens if part == "train" else max(tokens, _MEASURED_AT_ONCE)


def _reading(
    settings: RunSettings,
    tokenizer: Tokenizer,
    part: Part,
    source: Tokenizer | None,
    summary: Summary | None = None,
) -> tuple[Examples, Cutter[Any]]:
    """What a part of the data holds for this task, and how it is cut into batches."""
    data, train = settings.data, settings.train
    tokens = token_budget(settings, part)
    if settings.task == "translate":
        dropout = data.bpe_dropout if part == "train" else 0.0
        joined = data.joined if part == "train" else 0.0
        by_length = ByLength(tokens=tokens, max_len=data.max_tokens, joined=joined)
        examples = pair_examples(
            open_pairs(data, part),
            source or tokenizer,
            tokenizer,
            dropout=dropout,
            fits=by_length.fits,
            seed=train.seed,
            summary=summary,
        )
        if dropout == 0.0:  # with it every epoch is another
            examples = kept(examples, WINDOW, WINDOW_IDS)
        return examples, by_length
    rows = Packed(length=train.length, n_rows=max(tokens // train.length, 1))
    if data.stream:
        seed = train.seed if part == "train" else None
        return stream_examples(open_stream(data, part), tokenizer, train.length, seed), rows
    texts = open_texts(data, part)
    if settings.task == "mlm":
        pieces = Pieces(tokens=tokens, length=train.length)
        read = text_examples(texts, tokenizer, bos=True, summary=summary)
        return kept(read, WINDOW, WINDOW_IDS), pieces
    return kept(text_examples(texts, tokenizer, summary=summary), WINDOW, WINDOW_IDS), rows


def batch_maker(settings: RunSettings, tokenizer: Tokenizer, start_id: int) -> BatchMaker:
    """What makes tensors of the items of a feed in this run."""
    cover = cover_for(tokenizer) if settings.task == "mlm" else None
    return BatchMaker(start_id, cover, is_stream=settings.data.stream)


def _texts(settings: RunSettings) -> Iterator[str]:
    if settings.data.stream:
        yield open_stream(settings.data, "train")
        return
    if settings.task != "translate":
        yield from (line.text for line in open_texts(settings.data, "train"))
        return
    for pair in open_pairs(settings.data, "train"):
        if settings.text.joint:
            yield pair.source
        yield pair.target
