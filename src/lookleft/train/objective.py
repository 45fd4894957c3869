"""What a micro-batch costs: everything between a batch and the number whose gradient is taken."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor

from lookleft.data.batch import NO_TARGET, Batch
from lookleft.models import AnyModel
from lookleft.nn.layers import set_dropout
from lookleft.train.device import PrecisionName, computing_in
from lookleft.train.loss import batch_loss, likeliest, question_at, twin_loss
from lookleft.train.sequential import sequential_loss

Mode = Literal["parallel", "sequential"]


@dataclass(frozen=True)
class Objective:
    """The summed loss of a batch at a step, as the settings of a run ask for it."""

    smoothing: float = 0.0  # of the labels
    mode: Mode = "parallel"
    rdrop: float = 0.0  # weight of the disagreement between two passes; 0: one pass
    rdrop_after: int = 0  # steps with one pass before that
    dropout_warmup: int = 0  # steps over which dropout grows from 0
    dropout_fade: float = 0.0  # below this share of the highest rate dropout falls with it
    own_words: float = 0.0  # share of the inputs that are the model's own predictions
    own_words_warmup: int = 0  # steps over which that share grows from 0
    precision: PrecisionName = "float32"
    rate_share: float = 1.0  # of the highest rate: where it stands now

    def at_rate(self, share: float) -> Objective:
        """The same at another share of the highest learning rate."""
        return replace(self, rate_share=share)

    def __call__(
        self,
        model: AnyModel,
        batch: Batch,
        step: int = 0,
        chance: torch.Generator | None = None,
    ) -> Tensor:
        """-> (), a sum over the targets of the batch; `chance` None is torch's own."""
        if self.dropout_warmup or self.dropout_fade:
            set_dropout(model, self.dropout_strength(step))
        with computing_in(self.precision, model.device):
            share = self.own_share(step)
            if share:
                batch = with_own_words(model, batch, share, chance)
            if self.mode == "sequential":
                return sequential_loss(model, batch, self.smoothing)
            if self.n_passes(step, step + 1) == 2:
                return twin_loss(model, batch, self.smoothing, self.rdrop)
            return batch_loss(model, batch, self.smoothing)

    def n_passes(self, start: int, end: int) -> int:
        """How often steps from `start` to before `end` go through the network: what they cost."""
        n_twice = max(end - max(start, self.rdrop_after), 0) if self.rdrop else 0
        return end - start + n_twice

    def dropout_strength(self, step: int) -> float:
        """How much of its dropout the model has at this step: 0 none, 1 all."""
        fading = self.rate_share / self.dropout_fade if self.dropout_fade else 1.0
        return min(grown(step, self.dropout_warmup), fading, 1.0)

    def own_share(self, step: int) -> float:
        """How much of its own words the model reads at this step."""
        return self.own_words * grown(step, self.own_words_warmup)


def grown(step: int, warmup: int) -> float:
    """How far something has come that grows from 0 to 1 over so many steps."""
    return min(step / warmup, 1.0) if warmup else 1.0


@torch.no_grad()
def with_own_words(
    model: AnyModel, batch: Batch, share: float, chance: torch.Generator | None = None
) -> Batch:
    """The batch with a share of its inputs replaced by what the model itself would have said there.

    Scheduled sampling in parallel passes (Mihaylova & Martins 2019): a first pass, without
    gradient and dropout, predicts every target; the word it holds for the likeliest takes the
    place of the true one in the next input. The targets stay, so the model learns to go on from
    its own mistakes. Which inputs are replaced is drawn as dropout is.
    """
    assert batch.targets is not None, "a training batch has targets"
    rows = batch.inputs
    is_drawn = torch.rand(rows.shape, generator=chance).to(rows.ids.device) < share
    # Input t + 1 is target t, read back, if both belong to the same text.
    is_read = batch.targets[:, :-1] != NO_TARGET
    is_read &= rows.is_token[:, 1:] & (rows.pos[:, 1:] == rows.pos[:, :-1] + 1)
    is_asked = torch.zeros_like(rows.is_token)
    is_asked[:, :-1] = is_read & is_drawn[:, 1:]  # (B, T), True at t if input t + 1 is replaced
    # Also if nothing is asked: under fsdp all processes must go through the network equally often.
    was_training = model.training
    model.eval()
    said = likeliest(question_at(model, batch, is_asked))  # (N,)
    model.train(was_training)
    ids = rows.ids.clone()
    ids[:, 1:][is_asked[:, :-1]] = said
    return replace(batch, inputs=replace(rows, ids=ids))
