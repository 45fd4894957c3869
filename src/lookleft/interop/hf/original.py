"""The same folder read by transformers itself, to hold our numbers against."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from lookleft.data.batch import Batch
from lookleft.interop.hf.folder import FAMILIES, read_config


def is_readable(folder: Path) -> bool:
    """True if transformers is installed and the folder is one of its model types."""
    model_type = read_config(folder).get("model_type")
    is_known = any(family.model_type == model_type for family in FAMILIES)
    return is_known and importlib.util.find_spec("transformers") is not None


@torch.no_grad()
def original_output(folder: Path, batch: Batch) -> Tensor:
    """What transformers computes for an unpadded batch.

    -> logits (B, T, V), or of a network without a head its states (B, T, D).
    """
    import transformers

    config = read_config(folder)
    family = next(family for family in FAMILIES if family.model_type == config["model_type"])
    is_headless = bool(family.headless) and config.get("architectures") == [family.headless]
    cls: Any = getattr(transformers, family.headless if is_headless else family.architecture)
    model = cls.from_pretrained(folder, local_files_only=True).eval()
    inputs = {"input_ids": batch.inputs.ids}
    if batch.source is not None:
        inputs = {"input_ids": batch.source.ids, "decoder_input_ids": batch.inputs.ids}
    output = model(**inputs)
    found: Tensor = output.last_hidden_state if is_headless else output.logits
    return found
