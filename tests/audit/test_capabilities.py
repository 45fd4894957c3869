"""Steps, packing, encoder-decoders, labels, scores, generation and dtypes: honest and broken."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from lookleft.audit import Report, Verdict, audit

from .subjects import VOCAB, Decoder, Packed, Recurrent, Translator


def accused(report: Report) -> set[str]:
    return {finding.check for finding in report.violations}


def passed(report: Report, check: str) -> bool:
    found = [f.verdict for f in report.findings if f.check == check]
    return Verdict.VERIFIED in found and Verdict.DISPROVED not in found


def test_a_step_has_to_agree_with_the_full_forward() -> None:
    honest, wrong = Recurrent(), Recurrent(is_wrong=True)
    assert passed(audit(honest, step=honest.step, checks="cache"), "K3")
    assert accused(audit(wrong, step="step", checks="cache")) == {"K3"}


def test_packed_documents_have_to_keep_apart() -> None:
    assert passed(audit(Packed(), checks="packing"), "K6")
    assert accused(audit(Packed(is_leaky=True), checks="packing")) == {"K6"}


def test_a_packed_rule_is_told_to_the_model_in_its_own_words() -> None:
    documents = [0] * 5 + [1] * 7 + [2] * 3
    assert not audit(Packed(), spec=documents, quick=True).violations
    assert "K1" in accused(audit(Packed(is_leaky=True), spec=documents, quick=True))


def test_an_honest_translator_passes() -> None:
    report = audit(Translator(), checks=("K1", "K2", "K7"))
    assert not report.violations
    assert passed(report, "K7")


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("causal encoder", "encoder is causal"),
        ("source padding seen", "source padding"),
        ("half of the source unseen", "changes no output"),
    ],
)
def test_the_source_side_is_asked_about(fault: str, words: str) -> None:
    found = audit(Translator(fault), checks="K7").violations
    assert found
    assert words in found[0].reason


def test_an_encoder_decoder_may_be_two_functions() -> None:
    for fault, expected in (("", set()), ("causal encoder", {"K7"})):
        model = Translator(fault)
        report = audit(
            None, encode=model.encode, decode=model.forward, vocab=VOCAB, checks=("K1", "K7")
        )
        assert accused(report) == expected


def shifted_loss(shift: int) -> Callable[[Tensor, Tensor], Tensor]:
    model = Decoder()

    def loss(ids: Tensor, labels: Tensor) -> Tensor:
        logits = model(ids)[0]
        return F.cross_entropy(logits[:, :-shift].flatten(0, 1), labels[:, shift:].flatten())

    return loss


def test_labels_shifted_twice_are_found() -> None:
    fine = audit(Decoder(), loss=shifted_loss(1), checks="labels")
    twice = audit(Decoder(), loss=shifted_loss(2), checks="labels")
    assert passed(fine, "K9")
    assert accused(twice) == {"K9"}


def test_a_score_that_sees_its_target_does_not_sum_to_one() -> None:
    model = Decoder()

    def honest(ids: Tensor) -> Tensor:  # the token at t, from the outputs before t
        return model(ids)[0].log_softmax(-1)[:, :-1].gather(-1, ids[:, 1:, None])[..., 0]

    def peeking(ids: Tensor) -> Tensor:  # from the output at t, which has read the token
        return model(ids)[0].log_softmax(-1).gather(-1, ids[..., None])[..., 0]

    assert passed(audit(model, loss=honest, checks="K9"), "K9")
    assert accused(audit(model, loss=peeking, checks="K9")) == {"K9"}


def greedy(model: Decoder, ids: Tensor, n: int) -> Tensor:
    cache, new = None, ids
    for _ in range(n):
        logits, cache = model(new, cache=cache)
        new = logits[:, -1:].argmax(-1)
        ids = torch.cat([ids, new], 1)
    return ids


def test_generated_ids_are_scored_again() -> None:
    for fault, expected in (("", set()), ("cache aligned top left", {"K10"})):
        model = Decoder(fault)
        report = audit(model, generate=lambda ids, n, m=model: greedy(m, ids, n), checks="K10")
        assert accused(report) == expected


def test_scores_of_answers_are_their_log_probabilities() -> None:
    model = Decoder()

    def scored(ids: Tensor, n: int, wrong: float = 0.0) -> tuple[Tensor, Tensor]:
        total = torch.full((len(ids),), wrong)
        for _ in range(n):
            best = model(ids)[0][:, -1].log_softmax(-1).max(-1)
            total = total + best.values
            ids = torch.cat([ids, best.indices[:, None]], 1)
        return ids, total

    assert passed(audit(model, generate=scored, checks="K10"), "K10")
    lying = audit(model, generate=lambda ids, n: scored(ids, n, wrong=0.5), checks="K10")
    assert accused(lying) == {"K10"}


def test_sampling_is_not_judged_as_greedy() -> None:
    model = Decoder()

    def sample(ids: Tensor, n: int) -> Tensor:
        for _ in range(n):
            new = torch.multinomial(model(ids)[0][:, -1].softmax(-1), 1)
            ids = torch.cat([ids, new], 1)
        return ids

    report = audit(model, generate=sample, checks="K10")
    assert {finding.verdict for finding in report.findings} == {Verdict.SKIPPED}


def test_a_constant_too_large_for_the_dtype_is_found() -> None:
    class Overflowing(Decoder):
        def forward(self, ids: Tensor) -> Tensor:  # type: ignore[override]
            out = super().forward(ids)[0]
            return out + 3e4 * torch.ones_like(out) * 3 - 9e4

    assert passed(audit(Decoder().half(), checks="K11"), "K11")
    assert accused(audit(Overflowing().half(), checks="K11")) == {"K11"}


class Bag(torch.nn.Module):
    """Translates from an average of its source: no state of the encoder mixes positions."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.embed, self.head = torch.nn.Embedding(VOCAB, 8), torch.nn.Linear(8, VOCAB)

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        context = self.embed(source).mean(1, keepdim=True)
        return self.head(self.embed(target).cumsum(1) + context)


def test_an_encoder_that_mixes_nothing_is_not_called_causal() -> None:
    assert passed(audit(Bag(), checks="K7"), "K7")


class AsksForMask(torch.nn.Module):
    """Looks at everything unless it is handed a mask; `forward` takes one, and may do without."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.embed, self.head = torch.nn.Embedding(VOCAB, 8), torch.nn.Linear(8, VOCAB)

    def forward(self, ids: Tensor, attn_mask: Tensor | None = None) -> Tensor:
        x = self.embed(ids)
        scores = x @ x.mT
        if attn_mask is not None:
            scores = scores.masked_fill(attn_mask, -torch.inf)
        return self.head(scores.softmax(-1) @ x)


def test_a_model_that_was_not_given_its_mask_is_told_of() -> None:
    report = audit(AsksForMask(), checks="K1", quick=True)
    assert report.violations
    assert any("'attn_mask' was not passed" in note for note in report.notes)


class Outweighed(Decoder):
    """Adds so much to hidden scores that only scores beyond thousands come through."""

    def __init__(self) -> None:
        super().__init__(layers=1)
        self.blocks[0] = torch.nn.ModuleDict({"mix": self.blocks[0].mix})

    def forward(self, ids: Tensor) -> Tensor:  # type: ignore[override]
        x = self.embed(ids) + self.place(torch.arange(ids.size(1)))
        q, k, v = self.blocks[0]["mix"](x).chunk(3, -1)
        hidden = torch.ones(ids.size(1), ids.size(1)).triu(1)
        return self.head(x + (q @ k.mT - 1e4 * hidden.to(x.dtype)).softmax(-1) @ v)


def test_a_finite_mask_that_only_huge_scores_outweigh_is_remarked_upon_not_accused() -> None:
    report = audit(Outweighed(), checks="K1")
    assert not report.violations, str(report)
    assert any("the mask adds a finite number" in note for note in report.notes)


class Placed(nn.Module):
    """A decoder that counts positions from `first` unless it is told them."""

    def __init__(self, first: int) -> None:
        super().__init__()
        self.first, self.inner = first, Decoder()

    def forward(
        self,
        ids: Tensor,
        attention_mask: Tensor | None = None,
        position_ids: Tensor | None = None,
    ) -> Tensor:
        if position_ids is None:
            position_ids = self.first + torch.arange(ids.size(1)).expand(ids.shape)
        logits: Tensor = self.inner(ids, attention_mask, position_ids)[0]
        return logits


class FromTheEdge(nn.Module):
    """A decoder that nobody can tell where a row begins."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = Placed(0)

    def forward(self, ids: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        logits: Tensor = self.inner(ids, attention_mask)
        return logits


def continued(model: nn.Module, ids: Tensor, n: int, mask: Tensor | None, **how: Any) -> Tensor:
    """Greedy search by full forwards; `counted` makes positions for a length."""
    counted = how.get("counted")
    for _ in range(n):
        told = {} if counted is None else {"position_ids": counted(ids.size(1)).expand(ids.shape)}
        new = model(ids, attention_mask=mask, **told)[:, -1:].argmax(-1)
        ids = torch.cat([ids, new], 1)
        mask = None if mask is None else torch.cat([mask, torch.ones_like(new).bool()], 1)
    return ids


def test_positions_that_begin_elsewhere_in_generate_are_named() -> None:
    model = Placed(first=2)

    def honest(ids: Tensor, n: int) -> Tensor:
        return continued(model, ids, n, None)

    def from_zero(ids: Tensor, n: int) -> Tensor:
        return continued(model, ids, n, None, counted=torch.arange)

    assert passed(audit(model, generate=honest, checks="K10"), "K10")
    (found,) = audit(model, generate=from_zero, checks="K10").violations
    assert found.cause == "generate counts positions from 0, a forward without position ids from 2"


def test_left_padding_that_no_position_id_can_mend_is_a_remark() -> None:
    """The same text is a fault in a model that could have been told its positions."""

    def text_of(model: nn.Module) -> Report:
        def generate(ids: Tensor, n: int, is_token: Tensor | None = None) -> Tensor:
            return continued(model, ids, n, is_token)

        return audit(model, generate=generate, checks="K10")

    lost = text_of(FromTheEdge())
    assert passed(lost, "K10")
    assert any("takes no position ids" in note for note in lost.notes)
    (found,) = text_of(Placed(0)).violations
    assert "left-padded" in found.reason
