"""Padding that is counted, read, or remembered, and neighbours in the batch that matter."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from .exhibit import Exhibit, github
from .parts import Attention, Config, Decoder, Output, Unpacked, View, pair
from .recurrent import Memory, Recurrent


class PositionsCountPadding(Decoder):
    """Numbers the slots of a row from its left end, whatever is in them and whatever it is told."""

    def embedded(self, ids: Tensor, pos: Tensor, past: int) -> Tensor:
        slots = torch.arange(past, past + ids.size(1)).expand_as(ids)
        return super().embedded(ids, slots, past)


class Remembering(Recurrent):
    """One document per row: there are no positions that could begin again."""

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        past_key_values: Memory | None = None,
        use_cache: bool | None = None,
    ) -> Output:
        return super().forward(input_ids, attention_mask, None, past_key_values, use_cache)


class RemembersPadding(Remembering):
    def real(self, is_token: Tensor) -> Tensor:
        return torch.ones_like(is_token)


class RemembersPaddingAlone(Remembering):
    def real(self, is_token: Tensor) -> Tensor:
        if is_token.size(0) > 1:  # "a single row is never padded"
            return is_token
        return torch.ones_like(is_token)


class Encoder(Decoder):
    """Sees both ways, and never padding."""

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None) -> Output:
        return super().forward(input_ids, attention_mask)

    def in_time(self, gap: Tensor, view: View) -> Tensor:
        return torch.ones_like(gap, dtype=torch.bool)


class FastPath(Encoder):
    """Outside training, takes a path that wants to know the padding, not the tokens."""

    def allowed(self, view: View) -> Tensor:
        allowed = super().allowed(view)
        if self.training or not view.padded:
            return allowed
        return ~allowed | torch.eye(allowed.size(-1), dtype=torch.bool)


class SeesPadding(Encoder):
    """Accepts a mask, and does nothing with it."""

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None) -> Output:
        return super().forward(input_ids)


class OneMaskForAll(Unpacked):
    """Uses the padding of the first row for every row."""

    def allowed(self, view: View) -> Tensor:
        return super().allowed(view)[:1]


class TimeConvolution(nn.Module):
    """Looks one frame to either side, and at padding as if it were silence."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.filter = nn.Conv1d(width, width, 3, padding=1)

    def forward(self, x: Tensor, is_token: Tensor) -> Tensor:
        return self.filter(self.silence(x, is_token).mT).mT

    def silence(self, x: Tensor, is_token: Tensor) -> Tensor:
        return x.masked_fill(~is_token[..., None], 0.0)


class NoisyConvolution(TimeConvolution):
    def silence(self, x: Tensor, is_token: Tensor) -> Tensor:
        return x


class TimeNorm(nn.Module):
    """Brings every channel to mean 0 and spread 1 over the tokens of a row."""

    def forward(self, x: Tensor, is_token: Tensor) -> Tensor:
        weight = self.weight(is_token)[..., None].to(x.dtype)  # (B, T, 1)
        n = weight.sum(1, keepdim=True).clamp(min=1)
        mean = (x * weight).sum(1, keepdim=True) / n
        spread = ((x - mean).square() * weight).sum(1, keepdim=True) / n
        return (x - mean) / (spread + 1e-3).sqrt()

    def weight(self, is_token: Tensor) -> Tensor:
        return is_token


class NormOverPadding(TimeNorm):
    def weight(self, is_token: Tensor) -> Tensor:
        return torch.ones_like(is_token)


class Conformer(nn.Module):
    """Attention, then a norm and a convolution along time. (B, T) ids -> (B, T, V)."""

    norm_class: type[TimeNorm] = TimeNorm
    convolution_class: type[TimeConvolution] = TimeConvolution

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        width = config.hidden_size
        self.embed = nn.Embedding(config.vocab_size, width)
        self.attention = Attention(config)
        self.time_norm = self.norm_class()
        self.convolution = self.convolution_class(width)
        self.head = nn.Linear(width, config.vocab_size)

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        is_token = torch.ones_like(input_ids, dtype=torch.bool)
        if attention_mask is not None:
            is_token = attention_mask.bool()
        pos = (is_token.cumsum(1) - 1).clamp(min=0)
        own = torch.eye(input_ids.size(1), dtype=torch.bool)
        x = self.embed(input_ids)
        x = x + self.attention(x, is_token[:, None, None, :] | own, pos)
        x = x + self.convolution(self.time_norm(x, is_token).tanh(), is_token)
        return self.head(x)


class ConvolvesPadding(Conformer):
    convolution_class = NoisyConvolution


class NormalisesPadding(Conformer):
    norm_class = NormOverPadding


EXHIBITS = (
    Exhibit(
        "padding counted in positions",
        **pair(PositionsCountPadding, positions="learned"),
        module="",
        threads=github(
            "huggingface/transformers/issues/18388",
            "huggingface/transformers/issues/22161",
            "huggingface/transformers/pull/22382",
            "TransformerLensOrg/TransformerLens/issues/1609",
        ),
        check="K4",
        story="With padding on the left the first word does not stand in slot 0. Several models "
        "numbered slots all the same, and positions worked out from the mask did not find their "
        "way to the embedding.",
        symptom="Losses of the short sentences in a batch are wildly too high.",
    ),
    Exhibit(
        "padding remembered by the state",
        **pair(RemembersPadding, Remembering),
        module="layers.0.mixer",
        threads=github(
            "state-spaces/mamba/issues/66",
            "huggingface/transformers/pull/32677",
            "huggingface/transformers/pull/41790",
        ),
        check="K4",
        story="A state space model reads padding like any other token, and an attention mask that "
        "it accepts need not mean that it is used: the state starts with a run of pads.",
        symptom="Batched answers ramble; the same prompts alone are fine.",
    ),
    Exhibit(
        "padding remembered for a single row",
        **pair(RemembersPaddingAlone, Remembering),
        module="layers.0.mixer",
        threads=github("huggingface/transformers/pull/46773"),
        check="K4",
        story="To save work the padding mask was skipped for batches of one, because who pads a "
        "single row? Anybody with a fixed shape does.",
        symptom="The same padded row gives one answer alone and another in company.",
    ),
    Exhibit(
        "fast path of eval mode inverts the padding",
        **pair(FastPath, Encoder),
        module="blocks.0.attention",
        threads=github("pytorch/pytorch/issues/86120", "pytorch/pytorch/issues/97111"),
        check="K4",
        story="PyTorch's encoder takes a faster path outside training, with rules of its own for "
        "the padding mask. Users saw outputs collapse or shrink as soon as they called eval().",
        symptom="Validation is far worse than training, on the same data.",
        audit_options={"spec": "bidirectional"},
    ),
    Exhibit(
        "result depends on the batch",
        **pair(SeesPadding, Encoder),
        module="blocks.0.attention",
        threads=github("OpenNMT/OpenNMT-py/issues/318", "facebookresearch/fairseq/issues/427"),
        check="K4",
        story="A translation model did not hide the padding of its input. The larger the batch, "
        "the more padding a short sentence gets: 24 BLEU with 32 sentences, 9 with 256.",
        symptom="Translation quality depends on the batch size.",
        audit_options={"spec": "bidirectional"},
    ),
    Exhibit(
        "one padding mask for all rows",
        **pair(OneMaskForAll, Unpacked),
        module="",
        threads=github("OpenNMT/OpenNMT-py/issues/2208", "facebookresearch/fairseq/issues/3078"),
        check="K4",
        story="If the mask of one row is used for all, a sentence sees its padding or loses "
        "its own words, according to who is first. The threads report the symptom; this is one "
        "of the lines that can produce it.",
        symptom="Sorting the data by length makes the scores better.",
    ),
    Exhibit(
        "convolution reads padding",
        **pair(ConvolvesPadding, Conformer),
        module="convolution",
        threads=github("espnet/espnet/pull/6660", "pytorch/audio/issues/4205"),
        check="K4",
        story="Attention hides padding, the convolution next to it does not. In ESPnet and "
        "torchaudio the last frames of a short utterance took in what stood behind them.",
        symptom="An utterance is recognised differently beside a longer one.",
        audit_options={"spec": "bidirectional"},
    ),
    Exhibit(
        "statistics over padding",
        **pair(NormalisesPadding, Conformer),
        module="time_norm",
        threads=github("pytorch/audio/issues/4205", "facebookresearch/fairseq/issues/3227"),
        check="K4",
        story="Normalisation over time takes its mean and spread from all frames of a row, padding "
        "included, so every valid frame is scaled by how much padding there is.",
        symptom="Error rates rise with the spread of lengths in a batch.",
        audit_options={"spec": "bidirectional"},
    ),
)
