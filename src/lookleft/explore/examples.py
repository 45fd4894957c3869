"""Sentences to begin with: one at once, and more from what a run held out, easy ones first."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from itertools import islice
from typing import Any

from lookleft.errors import LookleftError
from lookleft.explore.card import ModelCard
from lookleft.train.corpora import open_pairs, open_texts
from lookleft.train.settings import RunSettings

N_EXAMPLES = 8
N_READ = 500  # held-out sentences among which they are chosen
MAX_WORDS = 24


@dataclass(frozen=True)
class Example:
    """A sentence, with its translation where the model translates."""

    source: str | None
    target: str | None
    difficulty: int = 0  # 0 is the easiest

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def first_example(card: ModelCard) -> Example:
    """The sentence that is shown before anybody has typed one."""
    if not card.has_tokenizer:
        ids = " ".join(str(id % card.vocab_size) for id in (5, 6, 7, 8))
        return Example(ids if card.family == "encoder-decoder" else None, ids)
    if card.family == "encoder-decoder":
        is_hindi = (card.source_lang, card.target_lang) == ("en", "hi")
        return Example("I am going home.", "मैं घर जा रहा हूँ।" if is_hindi else None)
    if card.family == "decoder-only":
        return Example(None, "The cat sat on the mat because it was tired.")
    return Example(None, "The capital of France is Paris.")


def held_out_examples(card: ModelCard, settings: RunSettings | None) -> list[Example]:
    """The first example, and some of the run's dev set from short to long; may take seconds."""
    first = first_example(card)
    if settings is None and (card.source_lang, card.target_lang) == ("en", "hi"):
        settings = RunSettings()  # no run beside it: the built-in grammar holds sentences out too
    if settings is None or settings.data.dev_set is None:
        return [first]
    try:
        found = _short_ones(settings)
    except LookleftError:  # the files of the run have gone: the model still works without them
        return [first]
    found.sort(key=lambda example: len((example.source or example.target or "").split()))
    every = max(len(found) // N_EXAMPLES, 1)
    chosen = found[::every][:N_EXAMPLES]
    return [first, *(Example(e.source, e.target, n) for n, e in enumerate(chosen, start=1))]


def _short_ones(settings: RunSettings) -> list[Example]:
    """Held-out sentences that fit on the page."""
    if settings.task == "translate":
        pairs = islice(open_pairs(settings.data, "dev"), N_READ)
        found = [Example(pair.source, pair.target) for pair in pairs]
    else:
        found = [
            Example(None, line.text) for line in islice(open_texts(settings.data, "dev"), N_READ)
        ]
    texts = [(example, (example.source or example.target or "").split()) for example in found]
    return [example for example, words in texts if 1 < len(words) <= MAX_WORDS]
