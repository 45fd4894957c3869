"""Documents packed into one row that do not keep to themselves."""

from __future__ import annotations

import torch
from torch import Tensor

from .exhibit import Exhibit, github
from .parts import Decoder, View, mean_loss, pair
from .recurrent import Recurrent


class Concatenated(Decoder):
    """Knows nothing of documents: positions run on, and everybody before is visible."""

    def run_blocks(self, x: Tensor, allowed: Tensor, pos: Tensor, cache: object) -> Tensor:
        start = 0 if cache is None else allowed.size(-1) - x.size(1)
        pos = torch.arange(start, start + x.size(1)).expand(x.size(0), -1)
        return super().run_blocks(x, allowed, pos, cache)

    def documents(self, pos: Tensor, is_token: Tensor) -> None:
        return None


class PositionsOnly(Decoder):
    """Starts positions afresh, and lets attention run across."""

    def documents(self, pos: Tensor, is_token: Tensor) -> None:
        return None


class LostWithMask(Decoder):
    """Looks for documents only if no mask was given; a mask of ones is a mask."""

    def allowed(self, view: View) -> Tensor:
        if view.mask_given and view.document is not None:
            view = View(**{**vars(view), "document": view.is_token.long()})
        return super().allowed(view)


class LostForBatches(Decoder):
    """Reads the boundaries of a single row; with more rows it gives up and says nothing."""

    def documents(self, pos: Tensor, is_token: Tensor) -> Tensor | None:
        return super().documents(pos, is_token) if pos.size(0) == 1 else None


class LostOnOneBackend(Decoder):
    """Only the fused kernel is told where documents begin."""

    def documents(self, pos: Tensor, is_token: Tensor) -> Tensor | None:
        if self.config._attn_implementation == "eager":
            return None
        return super().documents(pos, is_token)


class StateCrosses(Recurrent):
    """Carries its memory from one document into the next."""

    def starts(self, pos: Tensor | None, is_token: Tensor) -> Tensor:
        return torch.zeros_like(is_token)


class BoundaryLabels(Decoder):
    """Asks the last token of a document for the first token of the next."""

    def loss(self, logits: Tensor, labels: Tensor, view: View) -> Tensor:
        return mean_loss(logits[:, :-1], labels[:, 1:])


FIRST = "blocks.0.attention"

EXHIBITS = (
    Exhibit(
        "documents simply concatenated",
        **pair(Concatenated),
        module=FIRST,
        threads=github("huggingface/trl/issues/3067", "huggingface/trl/issues/1230"),
        check="K6",
        story="Packing saves padding by writing several samples into one row. If nothing else is "
        "done, each sample is read as the continuation of the one before.",
        symptom="Quality drops a little with packing on, and nobody knows why.",
    ),
    Exhibit(
        "positions reset, attention not",
        **pair(PositionsOnly),
        module=FIRST,
        threads=github("huggingface/nanoVLM/pull/204"),
        check="K6",
        story="Positions were made to start afresh in each document, which looks like isolation. "
        "Attention still reached across: measured, a document depended on the one before it as "
        "much as ever.",
        symptom="Changing the first document changes the second.",
    ),
    Exhibit(
        "isolation lost with a mask of ones",
        **pair(LostWithMask),
        module=FIRST,
        threads=github("huggingface/transformers/pull/46634"),
        check="K6",
        story="Documents were looked for only if the caller passed no attention mask. Trainers "
        "pass one as a matter of course; it says 'no padding' and was taken for 'one document'.",
        symptom="Loss falls as usual; only a comparison with separate rows shows it.",
    ),
    Exhibit(
        "isolation lost for more than one row",
        **pair(LostForBatches),
        module=FIRST,
        threads=github("axolotl-ai-cloud/axolotl/issues/1375"),
        check="K6",
        story="The lengths of the documents were derived for a batch of one. For larger batches "
        "the shapes did not fit, and the information was dropped without a word.",
        symptom="Correct with batch size 1, contaminated with 2.",
    ),
    Exhibit(
        "isolation lost on one backend",
        **pair(LostOnOneBackend),
        module=FIRST,
        threads=github("axolotl-ai-cloud/axolotl/pull/3796"),
        check="K6",
        story="Document boundaries reached one attention kernel through arguments of its own. The "
        "other backends know no such arguments and ignored them.",
        symptom="Two backends, two losses.",
    ),
    Exhibit(
        "recurrent state crosses documents",
        **pair(StateCrosses, Recurrent),
        module="layers.0.mixer",
        threads=github("axolotl-ai-cloud/axolotl/issues/3572", "NVIDIA-NeMo/Automodel/pull/2147"),
        check="K6",
        story="Masks isolate documents in attention. Recurrent layers and short convolutions have "
        "no mask: unless told where documents begin, they carry their state along.",
        symptom="Hybrid models lose more from packing than pure attention does.",
    ),
    Exhibit(
        "label across a document boundary",
        **pair(BoundaryLabels),
        module="",
        threads=github(
            "pytorch/torchtitan/pull/4075",
            "meta-pytorch/torchtune/pull/2613",
            "meta-pytorch/torchtune/issues/1177",
        ),
        check="K6",
        story="Labels were shifted over the packed row, so the last token of each document was "
        "asked for the first of an unrelated one.",
        symptom="A small loss that can never be learned.",
    ),
)
