"""What the demo measures on a trained translator, one function per chapter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from lookleft.api import Model
from lookleft.audit.run import audit
from lookleft.data.batch import Batch, as_rows, translation_batch
from lookleft.data.phrases import PhrasePair
from lookleft.errors import InputError
from lookleft.evaluate.audited import capabilities
from lookleft.evaluate.bleu import corpus_scores
from lookleft.models import EncoderDecoder

AUDIT_LENGTH = 16  # positions: enough to see a leak
SHOWN = 6  # examples, and mistakes


@dataclass(frozen=True)
class Example:
    """A sentence, what it should become, and what the model made of it."""

    source: str
    reference: str  # empty for a sentence that a user typed
    output: str

    @property
    def is_right(self) -> bool:
        return self.output == self.reference


@dataclass(frozen=True)
class Quality:
    """How well unseen sentences are translated."""

    n: int
    exact_match: float  # share of translations that are the reference, letter by letter
    chrf: float
    bleu: float
    signature: str
    examples: tuple[Example, ...]
    mistakes: tuple[Example, ...]


@dataclass(frozen=True)
class LaneRow:
    """One position of a target: the word it predicts, and how likely both lanes find it."""

    read: str
    predicted: str
    training: float
    inference: float


@dataclass(frozen=True)
class Lanes:
    """The same rows computed twice: all at once, and one step at a time through the cache."""

    source: str
    rows: tuple[LaneRow, ...]
    max_difference: float  # of any logit of any row


@dataclass(frozen=True)
class Proof:
    """What the audit says of a model."""

    verdict: str
    module: str  # where it begins to look ahead; empty if it does not
    reason: str
    n_checks: int


def measure_quality(model: Model, pairs: Sequence[PhrasePair]) -> Quality:
    """Translate sentences whose combination of words was never seen, greedily, and compare."""
    outputs = model.translate([pair.english for pair in pairs])
    found = [
        Example(pair.english, pair.hindi, output)
        for pair, output in zip(pairs, outputs, strict=True)
    ]
    scores = corpus_scores(outputs, [pair.hindi for pair in pairs], tokenize="intl")
    return Quality(
        n=len(found),
        exact_match=sum(example.is_right for example in found) / len(found),
        chrf=scores.chrf,
        bleu=scores.bleu,
        signature=scores.signature,
        examples=tuple([example for example in found if example.is_right][:SHOWN]),
        mistakes=tuple([example for example in found if not example.is_right][:SHOWN]),
    )


def translate_given(model: Model, sentences: Sequence[str]) -> tuple[Example, ...]:
    """What the model makes of sentences without a reference."""
    outputs = model.translate(list(sentences))
    return tuple(Example(s, "", out) for s, out in zip(sentences, outputs, strict=True))


@torch.no_grad()
def compare_lanes(model: Model, source: str, target: str) -> Lanes:
    """Teacher forcing in one pass against the same words fed one by one."""
    network, tokenizer = model.network, model.tokenizer
    if not isinstance(network, EncoderDecoder) or tokenizer is None:
        raise InputError("the two lanes of the demo need a translator with its tokenizer")
    source_ids, target_ids = tokenizer.encode(source, eos=True), tokenizer.encode(target, eos=True)
    batch = translation_batch([source_ids], [target_ids], network.config.start_id)
    at_once = network.score(batch)[0]  # (T, V)
    first = Batch(as_rows(batch.inputs.ids[:, :1]), source=batch.source)
    logits, state = network.prefill(first, room=len(target_ids))
    steps = [logits[0]]
    for token in batch.inputs.ids[0, 1:]:
        steps.append(network.step(token[None], state)[0])
    one_by_one = torch.stack(steps)  # (T, V)
    pieces = [tokenizer.decode([i]) for i in target_ids[:-1]]
    training, inference = (
        lane.log_softmax(-1).exp()[torch.arange(len(target_ids)), torch.tensor(target_ids)].tolist()
        for lane in (at_once, one_by_one)
    )
    rows = zip(["<s>", *pieces], [*pieces, "</s>"], training, inference, strict=True)
    difference = float((at_once - one_by_one).abs().max())
    return Lanes(source, tuple(LaneRow(*row) for row in rows), difference)


def prove(model: Model) -> Proof:
    """The quick audit of the trained weights."""
    subject: Any = model.audit_subject()
    report = audit(subject, **capabilities(subject), quick=True, length=AUDIT_LENGTH)
    worst = next(
        (finding for finding in report.findings if finding.verdict == report.verdict), None
    )
    return Proof(
        verdict=str(report.verdict),
        # The audit calls the network through a wrapper, whose name tells nobody anything.
        module=(worst.module or "").removeprefix("network.") if worst else "",
        reason="no output depends on a later input" if report.ok else worst.reason if worst else "",
        n_checks=len(report.findings),
    )


def losses_of(rows: Sequence[Mapping[str, Any]]) -> list[tuple[float, float]]:
    """(step, training loss) of the rows of a metrics.jsonl."""
    return [(row["step"], row["loss"]) for row in rows]


def last_dev_loss(rows: Sequence[Mapping[str, Any]]) -> float:
    """The last loss on unseen sentences, which no smoothing raises, of a metrics.jsonl."""
    return next(float(row["dev_loss"]) for row in reversed(rows) if "dev_loss" in row)
