"""`lookleft mask`: who may look at whom, for the user's own words."""

from __future__ import annotations

import json
from typing import Annotated, Literal

from cyclopts import Parameter

from lookleft.errors import InputError

MAX_PLACES = 2_048  # four million cells


def mask(
    sentence: str,
    *,
    pad: int = 0,
    window: int | None = None,
    prefix: int | None = None,
    docs: str | None = None,
    encoder: bool = False,
    as_: Annotated[Literal["picture", "matrix", "table"], Parameter(name="--as")] = "picture",
    json_: Annotated[bool, Parameter(name="--json", negative="")] = False,
) -> None:
    """Show the attention mask over the words of SENTENCE.

    Examples:
      lookleft mask "I am fine"
      lookleft mask "I am fine" --pad 2 --as matrix
      lookleft mask "मैं ठीक हूँ" --as table
      lookleft mask "a b c d e f" --window 3
      lookleft mask "how are you fine" --prefix 3
      lookleft mask "one two three" --docs 2,1

    Parameters
    ----------
    sentence
        Words, separated by spaces.
    pad
        Add so many padding places at the end; nobody sees them.
    window
        Each word sees only the last so many words, itself included.
    prefix
        The first so many words see each other in both directions.
    docs
        Lengths of documents packed into the row, as in 2,1: they do not see each other.
    encoder
        No causal mask: everyone sees everyone.
    as_
        picture: one character a pair; matrix: the 0 and -inf added to the scores; table: in words.
    json_
        Print one JSON object instead.
    """
    import torch

    from lookleft import picture
    from lookleft.data.batch import as_rows
    from lookleft.masks import Side, visible

    words = sentence.split()
    if not words:
        raise InputError('the sentence is empty; try: lookleft mask "I am fine"')
    width = len(words) + pad
    if pad < 0:
        raise InputError(f"--pad {pad}: padding cannot be negative")
    if width > MAX_PLACES:
        raise InputError(f"{width:,} places, words and padding: at most {MAX_PLACES:,} are shown")
    if encoder and (window is not None or prefix is not None):
        raise InputError("--window and --prefix change a causal mask; leave out --encoder")
    if prefix is not None and not 0 <= prefix <= len(words):
        raise InputError(f"--prefix {prefix}: the sentence has {len(words)} words")
    if window is not None:
        window = min(window, width)  # wider windows show the same
    is_token = torch.arange(width)[None] < len(words)  # (1, T)
    rows = as_rows(torch.zeros(1, width, dtype=torch.long), is_token)
    numbers = None if docs is None else torch.tensor([document_numbers(docs, len(words), width)])
    side = Side(rows.pos, rows.is_token, numbers)
    seen = visible(side, side, is_causal=not encoder, window=window, prefix=prefix)
    allowed = seen.allowed[0, 0]  # (T, T)
    words += ["<pad>"] * pad
    if json_:
        print(json.dumps({"words": words, "allowed": allowed.tolist()}, ensure_ascii=False))
    elif as_ == "picture":
        print(picture.draw_mask(allowed, words))
    elif as_ == "table":
        print(picture.draw_table(allowed, words))
    else:
        print(picture.draw_matrix(seen.additive()[0, 0], words))


def document_numbers(docs: str, n_words: int, width: int) -> list[int]:
    """The document of every place: "2,1" -> 0, 0, 1; padding belongs to the last."""
    try:
        lengths = [int(part) for part in docs.split(",")]
    except ValueError:
        raise InputError(f"--docs {docs!r:.80}: give lengths with commas, as in 2,1") from None
    if min(lengths) < 1 or sum(lengths) != n_words:
        raise InputError(
            f"--docs {docs!r:.80}: lengths must be 1 or more and add up to the {n_words} words"
        )
    numbers = [number for number, length in enumerate(lengths) for _ in range(length)]
    return numbers + [len(lengths) - 1] * (width - n_words)
