"""Which languages a translator knows, and the tokens by which it is told.

A model of one pair needs no telling. Models of many languages have a token for each: M2M100
spells it `__hi__`, mBART `hi_IN`, NLLB `hin_Deva`, and put it before the source and the target;
Marian spells it `>>hin<<` and puts the target's before the source.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from lookleft.bundle import Bundle
from lookleft.errors import InputError
from lookleft.text.tokenizer import Tokenizer

_BEFORE_BOTH = re.compile(r"__([a-z]{2,3})__|([a-z]{2})_[A-Z]{2}|([a-z]{3}_[A-Z][a-z]{3})")
_BEFORE_SOURCE = re.compile(r">>([A-Za-z_]{2,12})<<")


@dataclass(frozen=True)
class Frame:
    """What stands before a source and before its translation."""

    source: tuple[int, ...] = ()
    target: tuple[int, ...] = ()


def frame_for(
    bundle: Bundle, tokenizer: Tokenizer, source: str | None, target: str | None
) -> Frame:
    """The tokens for a pair of languages, given by their codes; None leaves it to the model."""
    if source is None and target is None:
        return Frame()
    before_both = _codes(tokenizer, _BEFORE_BOTH)
    if before_both:
        return Frame(_token(before_both, source, "from"), _token(before_both, target, "to"))
    before_source = _codes(tokenizer, _BEFORE_SOURCE)
    if before_source:
        return Frame(_token(before_source, target, "to"), ())
    own = bundle.languages
    if (source or own[0], target or own[1]) != own or None in own:
        pair = f"{source or '?'} to {target or '?'}"
        known = " to ".join(code or "?" for code in own)
        raise InputError(
            f"cannot translate {pair}: this model knows one pair of languages"
            + (f", {known}" if any(own) else ", and does not say which; leave the languages out")
        )
    return Frame()


def _codes(tokenizer: Tokenizer, spelling: re.Pattern[str]) -> dict[str, int]:
    """The languages that have a token of this spelling, by their codes."""
    found = {}
    for id in range(len(tokenizer)):
        if match := spelling.fullmatch(tokenizer.piece(id)):
            found[next(group for group in match.groups() if group)] = id
    return found


def _token(codes: dict[str, int], code: str | None, side: str) -> tuple[int, ...]:
    if code is None:
        return ()
    if code not in codes:
        some = ", ".join(sorted(codes)[:20]) + (", ..." if len(codes) > 20 else "")
        raise InputError(f"cannot translate {side} {code!r}: this model knows {some}")
    return (codes[code],)
