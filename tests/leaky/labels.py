"""Labels that miss their logits, and modes and dtypes in which the arithmetic changes."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from .exhibit import Exhibit, github
from .parts import Attention, Decoder, View, mean_loss, pair, turn
from .translators import Translator


class ShiftedTwice(Decoder):
    """The data loader has shifted the labels; the loss shifts them again."""

    def loss(self, logits: Tensor, labels: Tensor, view: View) -> Tensor:
        return mean_loss(logits[:, :-2], labels[:, 2:])


class TranslatorShiftedTwice(Translator):
    """Reads labels one later and then compares with labels one earlier."""

    def loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        return mean_loss(logits[:, :-1], labels[:, 1:])


class ShiftedPerShard(Decoder):
    """A long row is shared out, and every share shifts its own labels."""

    def loss(self, logits: Tensor, labels: Tensor, view: View) -> Tensor:
        half = labels.size(1) // 2
        targets = torch.cat([labels[:, 1:half], labels[:, half:][:, 1:]], 1)
        answers = torch.cat([logits[:, : half - 1], logits[:, half:-1]], 1)
        return mean_loss(answers, targets)  # the label at `half` is asked of nobody


class Dropping(Attention):
    """Passes its dropout to the kernel, which knows no modes."""

    def attend(self, q: Tensor, k: Tensor, v: Tensor, allowed: Tensor) -> Tensor:
        drop = self.rate()
        return F.scaled_dot_product_attention(q, k, v, attn_mask=allowed, dropout_p=drop)

    def rate(self) -> float:
        return self.config.attention_dropout if self.training else 0.0


class AlwaysDropping(Dropping):
    def rate(self) -> float:
        return self.config.attention_dropout


class Dropout(Decoder):
    attention = Dropping


class DropoutInEval(Decoder):
    attention = AlwaysDropping


class SharpAttention(Attention):
    """Attends to few keys, so that it matters which."""

    def attend(self, q: Tensor, k: Tensor, v: Tensor, allowed: Tensor) -> Tensor:
        return super().attend(q * 40, k, v, allowed)


class Sharp(Decoder):
    attention = SharpAttention


class CoarseTables(SharpAttention):
    """Works its angles out in the dtype of the weights."""

    def turn(self, x: Tensor, pos: Tensor) -> Tensor:
        return turn(x, pos, dtype=x.dtype)


class CoarseRotary(Decoder):
    attention = CoarseTables


EXHIBITS = (
    Exhibit(
        "labels shifted twice",
        **pair(ShiftedTwice),
        module="",
        threads=github(
            "huggingface/transformers/pull/44642", "huggingface/transformers/issues/47394"
        ),
        check="K9",
        story="The labels are one later already when they arrive, and the loss shifts them again: "
        "every position is asked for the token after the next. Users of transformers do it with "
        "labels of their own, and GIT did it to itself.",
        symptom="Trains without complaint; generated text skips every other word.",
    ),
    Exhibit(
        "translation labels shifted twice",
        **pair(TranslatorShiftedTwice, Translator),
        module="",
        threads=github("huggingface/transformers/pull/46898"),
        check="K9",
        story="Florence-2 shifts its labels to the right to obtain what the decoder reads. The "
        "loss it then called was the one for language models, which shifts once more.",
        symptom="Fine-tuning makes the model worse.",
    ),
    Exhibit(
        "labels shifted per shard",
        **pair(ShiftedPerShard),
        module="",
        threads=github(
            "huggingface/transformers/pull/48493", "huggingface/transformers/pull/36607"
        ),
        check="K9",
        story="When a long row is divided among devices and each device shifts its own labels, the "
        "last token of every shard but the last is asked for nothing.",
        symptom="A loss that depends on the number of devices.",
    ),
    Exhibit(
        "dropout in eval mode",
        **pair(DropoutInEval, Dropout, attention_dropout=0.2),
        module="",
        threads=github("karpathy/nanoGPT/pull/240", "pytorch/pytorch/issues/124464"),
        check="K0",
        story="The functional form of attention drops whatever it is told to drop; it knows "
        "nothing of train and eval. nanoGPT passed its dropout rate unconditionally.",
        symptom="Evaluation is noisy and a little too bad.",
    ),
    Exhibit(
        "rotary tables in half precision",
        **pair(CoarseRotary, Sharp, dtype=torch.bfloat16, num_hidden_layers=1),
        module="",
        threads=github("EleutherAI/gpt-neox/issues/1003", "huggingface/transformers/pull/29285"),
        check="K11",
        story="Angles are position times rate. Rounded to 8 bits, a large angle is wrong by a good "
        "part of a turn, and with it the order of distant words.",
        symptom="Long texts are worse in bfloat16 than in float32 by more than rounding explains.",
    ),
)
