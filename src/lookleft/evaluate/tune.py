"""How a translator decodes best: the length penalty that the dev set likes most.

A beam divides the summed log-probability of an answer by a power of its length. With too small a
power short answers win, and BLEU punishes their brevity; with too large a one long ones do, which
babble. Which is right depends on the model and its languages: one number, so it is tried.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice

from lookleft.bundle import Bundle
from lookleft.data.corpus import Pair
from lookleft.evaluate.bleu import corpus_scores
from lookleft.evaluate.judge import short_enough, tokenize_for
from lookleft.generate.translate import beam_for, translate
from lookleft.train.corpora import open_pairs
from lookleft.train.judge import Tuner, as_it_is
from lookleft.train.settings import RunSettings

MOST = 2_000  # dev sentences that are translated for each try
STEP = 0.2  # between two penalties; nearer ones differ by less than chance
SMALLEST, LARGEST = 0.0, 2.0


def make_tuner(
    settings: RunSettings,
    say: Callable[[str], None],
    is_stop_asked: Callable[[], bool] = lambda: False,
) -> Tuner:
    """The tuner that a run asks for; `say` is told what it tries and finds.

    `is_stop_asked` is looked at between two tries: then the best so far is taken.
    """
    beam, data = settings.train.tune_beam, settings.data
    if not beam:
        return as_it_is

    def tune(bundle: Bundle) -> None:
        pairs = list(islice(short_enough(open_pairs(data, "dev"), bundle, data.max_tokens), MOST))
        say(f"choosing the length penalty of a beam of {beam} on {len(pairs):,} dev sentences")
        tokenize = tokenize_for(settings)
        tried = tune_penalty(
            bundle, pairs, beam=beam, tokenize=tokenize, is_stop_asked=is_stop_asked
        )
        told = ", ".join(f"{penalty:g}: {bleu:.2f}" for penalty, bleu in sorted(tried.items()))
        say(f"length penalty {bundle.length_penalty:g} (BLEU by penalty: {told})")

    return tune


def tune_penalty(
    bundle: Bundle,
    pairs: Sequence[Pair],
    *,
    beam: int,
    tokenize: str,
    is_stop_asked: Callable[[], bool] = lambda: False,
) -> dict[float, float]:
    """Give the model its best length penalty; get the BLEU of each that was tried.

    From 1 it goes up as long as that helps, else down: scores have one hill. Asked to stop, it
    takes what it has.
    """
    sources, references = [pair.source for pair in pairs], [pair.target for pair in pairs]
    tried: dict[float, float] = {}

    def bleu(penalty: float) -> float:
        if penalty not in tried:
            bundle.length_penalty = penalty
            outputs = translate(bundle, sources, method=beam_for(bundle, beam))
            tried[penalty] = corpus_scores(outputs, references, tokenize=tokenize).bleu
        return tried[penalty]

    best, was_training = 1.0, bundle.network.training
    bundle.network.eval()
    try:
        for step in (STEP, -STEP):
            other = round(best + step, 2)
            while SMALLEST <= other <= LARGEST and not is_stop_asked() and bleu(other) > bleu(best):
                best, other = other, round(other + step, 2)
            if best != 1.0:
                break
    finally:
        bundle.network.train(was_training)
    bundle.length_penalty, bundle.penalty_beam = best, beam
    return tried
