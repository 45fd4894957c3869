"""`lookleft score`: the log-probability of every token, to hold a model against its original."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from lookleft.errors import FileError, InputError

if TYPE_CHECKING:
    from lookleft.bundle import Bundle

MAX_DIGITS = 18  # of an id: what tensors can hold


def score(
    model: str,
    *,
    ids: str | None = None,
    src_ids: str | None = None,
    text: str | None = None,
    src: str | None = None,
    tgt_file: Path | None = None,
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
      lookleft score runs/en-hi --src "I am fine." --tgt-file candidates.txt

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
    tgt_file
        Texts, one a line, each scored as a whole: which candidate does the model like most? The
        first token of a decoder-only model's text is in no total, so such texts should begin alike.
    json_
        Print {"ids": [...], "logprobs": [...]}; with tgt-file {"candidates": [...]}, which also
        have the text and the total of each.
    """
    from lookleft.bundle import load
    from lookleft.evaluate.score import score_ids

    if tgt_file is not None and (ids is not None or text is not None):
        raise InputError("give either --tgt-file, or --ids or --text")
    bundle = load(model)
    source = None
    if src_ids is not None or src is not None:
        source = _ids_from("--src-ids", src_ids, "--src", src, bundle.encode_source)
    if tgt_file is not None:
        candidates = _candidates(bundle, tgt_file, source)
        print(_as_json(candidates) if json_ else _as_table(candidates))
        return
    target = _ids_from("--ids", ids, "--text", text, bundle.encode)
    logprobs = score_ids(bundle.network, target, source)
    if json_:
        print(json.dumps({"ids": target, "logprobs": logprobs}))
        return
    for token, logprob in zip(target, logprobs, strict=True):
        print(f"{token:>8}  {'-' if logprob is None else f'{logprob:.6f}'}")


def _candidates(bundle: Bundle, path: Path, source: list[int] | None) -> list[dict[str, Any]]:
    """Every line of a file with its ids, their log-probabilities and the sum of these."""
    from lookleft.cli.evaluate import every_line
    from lookleft.evaluate.score import score_ids

    lines = every_line(path)
    if not lines:
        raise FileError(f"{path}: has no line to score")
    found = []
    for number, text in enumerate(lines, start=1):
        ids = bundle.encode(text)
        if not text.strip() or not ids:
            raise FileError(f"{path}:{number}: is empty; give one text a line")
        logprobs = score_ids(bundle.network, ids, source)
        scored = [each for each in logprobs if each is not None]
        # A language model whose text has a single token has said nothing about it: 0 would win.
        total = sum(scored) if scored else None
        found.append({"text": text, "ids": ids, "logprobs": logprobs, "total": total})
    return found


def _as_json(candidates: list[dict[str, Any]]) -> str:
    return json.dumps({"candidates": candidates}, ensure_ascii=False)


def _as_table(candidates: list[dict[str, Any]]) -> str:
    """One row for each, in the order of the file; the text last, as its width is anyone's guess."""
    rows = [f"{'total':>12}  {'per token':>10}  {'tokens':>6}  text"]
    for each in candidates:
        n_scored = sum(logprob is not None for logprob in each["logprobs"])
        figures = f"{'-':>12}  {'-':>10}"
        if each["total"] is not None:
            figures = f"{each['total']:>12.6f}  {each['total'] / n_scored:>10.6f}"
        rows.append(f"{figures}  {n_scored:>6}  {each['text']}")
    return "\n".join(rows)


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
