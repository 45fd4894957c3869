"""`generate` of transformers on a Marian folder."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from lookleft.data.batch import pad_rows

Ids = list[list[int]]


class Transformers:
    """A Marian folder, ready to translate."""

    def __init__(self, folder: Path, forbidden: Sequence[int]) -> None:
        """forbidden: tokens that never come; with the end token among them nothing ends early."""
        self._network = load_marian(folder)
        self._forbidden = list(forbidden)

    @torch.no_grad()
    def translate(self, sources: Sequence[Sequence[int]], *, beam: int, n_new: int) -> Ids:
        """Exactly n_new tokens for each source, all sources in one batch."""
        rows = pad_rows(sources)
        written = self._network.generate(
            rows.ids,
            attention_mask=rows.is_token.long(),
            num_beams=beam,
            do_sample=False,
            max_new_tokens=n_new,
            suppress_tokens=self._forbidden,
        )
        ids: Ids = written[:, 1:].tolist()  # without the start token
        return ids


def load_marian(folder: Path) -> Any:
    """The network in a Marian folder as transformers builds it, without a progress bar."""
    import transformers

    transformers.utils.logging.disable_progress_bar()
    return transformers.MarianMTModel.from_pretrained(folder, local_files_only=True).eval()
