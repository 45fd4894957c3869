"""What the card of a translator says about it, measured on the very weights that are passed on."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import torch

from lookleft.audit.run import audit
from lookleft.audit.verdict import Report
from lookleft.bundle import Bundle
from lookleft.bundled import DEFAULT
from lookleft.data.corpus import TsvPairs
from lookleft.data.mixture import OfOrigins, origins_beside
from lookleft.demo.story import AUDIT_LENGTH
from lookleft.evaluate.bleu import BucketScores, Scores, corpus_scores, scores_by_length
from lookleft.generate.translate import beam_for, translate

FILES = ("valid.tsv.gz", "valid-tatoeba.tsv.gz")
BEAM = 5
TOKENIZE = "intl"  # 13a would leave the danda glued to its word

# What people try first. None of them is chosen for coming out well.
SENTENCES = (
    "How are you?",
    "I am fine, thank you.",
    "What is your name?",
    "My name is Anita.",
    "Where do you live?",
    "I am going home.",
    "I love my mother.",
    "The cat sat on the mat.",
    "The tiger drank water.",
    "Please give me a glass of water.",
    "How much does this cost?",
    "I do not understand.",
    "Can you help me?",
    "It will rain tomorrow.",
    "We ate rice and vegetables yesterday.",
    "My brother works in a hospital.",
    "What time does the train leave?",
    "She has been learning Hindi for two years.",
    "If you come early, we can talk.",
    "The book that I bought last week is very interesting.",
)


@dataclass(frozen=True)
class Result:
    """The scores of one way to translate, on one set of sentences."""

    file: str
    part: str  # which of its origins
    n: int
    beam: int
    scores: Scores


@dataclass(frozen=True)
class Findings:
    """All that was measured."""

    results: tuple[Result, ...]
    by_length: tuple[BucketScores, ...]  # of the first file, with the beam
    examples: tuple[tuple[str, str], ...]  # sentence and its greedy translation
    report: Report
    command: str  # which makes that report


def measure(
    bundle: Bundle,
    data: Path,
    origins: Sequence[str],
    *,
    is_quick: bool,
    say: Callable[[str], None],
) -> Findings:
    """Scores on the validation sets, an audit, and what becomes of everyday sentences.

    origins: those that the model was trained on; of the first file they are also scored alone.
    The translations are those of `lookleft evaluate`.
    """
    results: list[Result] = []
    by_length: tuple[BucketScores, ...] = ()
    for name in FILES:
        pairs = list(TsvPairs(path=data / name))
        sources, references = [p.source for p in pairs], [p.target for p in pairs]
        for beam in (1, BEAM):
            say(f"translating the {len(pairs):,} sentences of {name}, beam {beam}")
            outputs = translate(bundle, sources, method=beam_for(bundle, beam))
            scores = corpus_scores(outputs, references, tokenize=TOKENIZE)
            results.append(Result(name, "all", len(pairs), beam, scores))
        if name != FILES[0]:
            continue
        by_length = tuple(scores_by_length(sources, outputs, references, tokenize=TOKENIZE))
        own = _numbers_of(data / name, origins)
        kept = [i for i, pair in enumerate(pairs) if pair.line in own]
        if 0 < len(kept) < len(pairs):
            scores = corpus_scores(
                [outputs[i] for i in kept], [references[i] for i in kept], tokenize=TOKENIZE
            )
            results.append(Result(name, "those it was trained on", len(kept), BEAM, scores))
    command = f"lookleft audit {DEFAULT} --length {AUDIT_LENGTH}{' --quick' if is_quick else ''}"
    say(command)
    with _one_thread():
        report = audit(bundle.audit_subject(), quick=is_quick, length=AUDIT_LENGTH)
    examples = zip(SENTENCES, translate(bundle, SENTENCES), strict=True)
    return Findings(tuple(results), by_length, tuple(examples), report, command)


@contextmanager
def _one_thread() -> Iterator[None]:
    """Many small passes: telling other threads about them takes longer than they do."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _numbers_of(file: Path, origins: Sequence[str]) -> set[int]:
    """Numbers of the lines that are of these origins."""
    if not origins:
        return set()
    wanted = OfOrigins(TsvPairs(path=file), origins_beside(file), frozenset(origins))
    return {pair.line for pair in wanted}
