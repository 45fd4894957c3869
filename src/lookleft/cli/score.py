"""`lookleft score`: the log-probability of every token, to hold a model against its original."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Annotated

from cyclopts import Parameter

from lookleft.errors import InputError

MAX_DIGITS = 18  # of an id: what tensors can hold


def score(
    model: str,
    *,
    ids: str | None = None,
    src_ids: str | None = None,
    text: str | None = None,
    src: str | None = None,
    json_: Annotated[bool, Parameter(name="--json", negative="")] = False,
) -> None:
    """Print the log-probability of every token of a text under MODEL.

    Decoder-only: the first token has none (null), every other is scored from those before it.
    Encoder-decoder: all target tokens are scored, the start token is implied.
    Encoder-only: every token is scored with all others and itself in view.

    Examples:
      lookleft score my-model --ids "5 6 7"
      lookleft score my-translator --src-ids "3 4" --ids "5 6 2" --json
      lookleft score model.gguf --text "Once upon a time"

    Parameters
    ----------
    model
        A model folder (lookleft's or Hugging Face's), a run folder, or a .gguf file.
    ids
        Token ids, separated by spaces.
    src_ids
        Token ids of the source, for encoder-decoders.
    text
        Text instead of ids, if the model comes with a tokenizer.
    src
        Source text instead of src-ids.
    json_
        Print {"ids": [...], "logprobs": [...]}.
    """
    from lookleft.bundle import load
    from lookleft.evaluate.score import score_ids

    bundle = load(model)
    target = _ids_from("--ids", ids, "--text", text, bundle.encode)
    source = None
    if src_ids is not None or src is not None:
        source = _ids_from("--src-ids", src_ids, "--src", src, bundle.encode_source)
    logprobs = score_ids(bundle.network, target, source)
    if json_:
        print(json.dumps({"ids": target, "logprobs": logprobs}))
        return
    for token, logprob in zip(target, logprobs, strict=True):
        print(f"{token:>8}  {'-' if logprob is None else f'{logprob:.6f}'}")


def _ids_from(
    ids_option: str,
    ids: str | None,
    text_option: str,
    text: str | None,
    encode: Callable[[str], list[int]],
) -> list[int]:
    """Ids given as numbers, or as text to be encoded; exactly one of the two."""
    if (ids is None) == (text is None):
        raise InputError(f"give either {ids_option} or {text_option}")
    if text is not None:
        return encode(text)
    parts = (ids or "").replace(",", " ").split()
    for part in parts:
        if not part.removeprefix("-").isdecimal() or len(part) > MAX_DIGITS:
            raise InputError(f'{ids_option} {part!r:.40}: give whole numbers, as in "5 6 7"')
    return [int(part) for part in parts]
