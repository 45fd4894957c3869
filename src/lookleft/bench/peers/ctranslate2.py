"""CTranslate2 on a Marian folder, converted by its own converter."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lookleft.bench.peers.transformers import load_marian

Ids = list[list[int]]


@dataclass(frozen=True)
class Setting:
    """How CTranslate2 is to compute."""

    compute_type: str  # "float32", "int8"
    inter_threads: int  # batches side by side
    intra_threads: int  # threads within one

    def __str__(self) -> str:
        return f"{self.compute_type}, {self.inter_threads} x {self.intra_threads} threads"


def settings(n_threads: int, batch: int) -> Iterator[Setting]:
    """What could be the fastest with so many threads and sentences at a time."""
    splits = {(1, n_threads)}
    splits.add((n_threads, 1) if batch > 1 else (1, 1))  # a single sentence cannot be shared out
    for compute_type in ("float32", "int8"):
        for inter, intra in sorted(splits):
            yield Setting(compute_type, inter, intra)


def convert_marian(folder: Path, out: Path, *, eos_id: int) -> None:
    """Write a Marian folder in CTranslate2's format; its tokens are called by their numbers.

    Its converter wants a tokenizer beside the weights, which random weights do not have: only its
    loader of Marian weights is used, and the vocabulary is made here.
    """
    import ctranslate2
    from ctranslate2.converters.transformers import MarianMTLoader

    network = load_marian(folder)
    # The last token only starts the decoder, and the converted model starts from zeros without it.
    tokens = [str(id) for id in range(network.config.vocab_size - 1)]

    class Converter(ctranslate2.converters.Converter):  # type: ignore[misc]
        def _load(self) -> Any:
            spec = MarianMTLoader().get_model_spec(network)
            spec.register_source_vocabulary(tokens)
            spec.register_target_vocabulary(tokens)
            spec.config.eos_token = spec.config.decoder_start_token = tokens[eos_id]
            spec.config.unk_token = tokens[-1]  # one has to be named; every token is known
            return spec

    Converter().convert(str(out))


class CTranslate2:
    """A converted model under one setting."""

    def __init__(self, folder: Path, setting: Setting) -> None:
        import ctranslate2

        self.setting = setting
        self._translator = ctranslate2.Translator(
            str(folder),
            compute_type=setting.compute_type,
            inter_threads=setting.inter_threads,
            intra_threads=setting.intra_threads,
        )

    def translate(self, sources: Sequence[Sequence[int]], *, beam: int, n_new: int) -> Ids:
        """Exactly n_new tokens for each source, all sources in one call."""
        share = -(-len(sources) // self.setting.inter_threads)
        done = self._translator.translate_batch(
            [[str(id) for id in source] for source in sources],
            max_batch_size=share,
            beam_size=beam,
            min_decoding_length=n_new,
            max_decoding_length=n_new,
        )
        return [[int(token) for token in answer.hypotheses[0]] for answer in done]
