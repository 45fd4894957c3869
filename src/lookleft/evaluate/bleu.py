"""How good translations are: BLEU and chrF++ as sacreBLEU counts them, with its signatures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast, get_args

from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.significance import PairedTest, Result

from lookleft.errors import InputError
from lookleft.train.settings import Tokenize

TOKENIZERS = get_args(Tokenize)
BUCKETS = (5, 10, 15, 20, 30, 50)  # words of a source: up to 5, up to 10, ..., and beyond


@dataclass(frozen=True)
class Scores:
    """Of a whole corpus; the signatures say how they were counted."""

    bleu: float
    chrf: float  # chrF++: character 6-grams and word 2-grams
    signature: str
    chrf_signature: str


@dataclass(frozen=True)
class BucketScores:
    """Of the sentences whose source has so many words."""

    words: str  # "6-10"
    n: int
    bleu: float
    chrf: float


@dataclass(frozen=True)
class Comparison:
    """Two systems on the same sentences, by paired bootstrap (Koehn 2004).

    A p below 0.05 says that the difference would hardly come by chance.
    """

    bleu: float  # of the other system
    chrf: float
    bleu_p: float
    chrf_p: float
    signature: str
    chrf_signature: str


def default_tokenize(language: str | None) -> str:
    """How BLEU cuts words of that language: 13a leaves the danda of Hindi glued to its word."""
    return "intl" if language == "hi" else "13a"


def corpus_scores(
    hypotheses: Sequence[str],
    references: Sequence[str],
    *,
    tokenize: str = "13a",
    lowercase: bool = False,
) -> Scores:
    """BLEU and chrF++ of translations against one reference each."""
    _check(hypotheses, references)
    bleu, chrf = _metrics(tokenize, lowercase)
    bleu_score = bleu.corpus_score(hypotheses, [references]).score
    chrf_score = chrf.corpus_score(hypotheses, [references]).score
    return Scores(
        bleu_score, chrf_score, f"BLEU|{bleu.get_signature()}", f"chrF2++|{chrf.get_signature()}"
    )


def scores_by_length(
    sources: Sequence[str],
    hypotheses: Sequence[str],
    references: Sequence[str],
    *,
    tokenize: str = "13a",
    lowercase: bool = False,
) -> list[BucketScores]:
    """The scores of short sentences, of longer ones, and so on; empty buckets are left out."""
    _check(hypotheses, references)
    rows: dict[int, list[int]] = {}
    for i, source in enumerate(sources):
        n_words = len(source.split())
        bucket = next((k for k, top in enumerate(BUCKETS) if n_words <= top), len(BUCKETS))
        rows.setdefault(bucket, []).append(i)
    found = []
    for bucket, members in sorted(rows.items()):
        scores = corpus_scores(
            [hypotheses[i] for i in members],
            [references[i] for i in members],
            tokenize=tokenize,
            lowercase=lowercase,
        )
        low = BUCKETS[bucket - 1] + 1 if bucket else 0
        name = f"{low}-{BUCKETS[bucket]}" if bucket < len(BUCKETS) else f"{low}+"
        found.append(BucketScores(name, len(members), scores.bleu, scores.chrf))
    return found


def compare(
    ours: Sequence[str],
    theirs: Sequence[str],
    references: Sequence[str],
    *,
    tokenize: str = "13a",
    lowercase: bool = False,
    n_samples: int = 1_000,
) -> Comparison:
    """How the other system scores, and how likely chance alone makes ours differ so much."""
    _check(ours, references)
    _check(theirs, references)
    bleu, chrf = _metrics(tokenize, lowercase)
    test = PairedTest(
        [("theirs", theirs), ("ours", ours)],
        {"bleu": bleu, "chrf": chrf},
        [references],
        test_type="bs",
        n_samples=n_samples,
    )
    signatures, columns = test()
    first, second = (name for name in columns if name != "System")
    results = [cast(list[Result], columns[name]) for name in (first, second)]
    (their_bleu, our_bleu), (their_chrf, our_chrf) = results
    return Comparison(
        bleu=their_bleu.score,
        chrf=their_chrf.score,
        bleu_p=_p_value(their_bleu, our_bleu),
        chrf_p=_p_value(their_chrf, our_chrf),
        signature=f"{first}|{signatures[first]}",
        chrf_signature=f"{second}|{signatures[second]}",
    )


def _p_value(theirs: Result, ours: Result) -> float:
    """How likely chance alone makes so large a difference; the test finds none in no difference."""
    assert ours.p_value is not None, "a paired test gives one to every system but the first"
    return 1.0 if ours.score == theirs.score else float(ours.p_value)


def check_tokenize(tokenize: str) -> None:
    """Raise unless BLEU can cut words in this way."""
    if tokenize not in TOKENIZERS:
        raise InputError(f"tokenize={tokenize!r}: use one of {', '.join(TOKENIZERS)}")


def _metrics(tokenize: str, lowercase: bool) -> tuple[BLEU, CHRF]:
    check_tokenize(tokenize)
    # Text that is tokenised already makes sacreBLEU warn unless told that this is meant.
    bleu = BLEU(tokenize=tokenize, lowercase=lowercase, force=tokenize == "none")
    return bleu, CHRF(word_order=2, lowercase=lowercase)


def _check(hypotheses: Sequence[str], references: Sequence[str]) -> None:
    if len(hypotheses) != len(references):
        raise InputError(
            f"{len(hypotheses):,} translations but {len(references):,} references: they must be "
            f"line by line the same sentences"
        )
    if not references:
        raise InputError("there is no sentence to score")
