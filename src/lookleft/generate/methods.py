"""Every way to decode, made from plain options."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from lookleft.errors import InputError
from lookleft.generate.request import GREEDY, Beam, Method, Power, Rule, Sample, Wu
from lookleft.generate.rules import biased, no_repeated_ngram, only_allowed, repetition_penalty


@dataclass(frozen=True)
class Way:
    """A method, the rules it keeps to, and whether it guesses ahead from its own text."""

    method: Method = GREEDY
    rules: tuple[Rule, ...] = ()
    is_lookup: bool = False


def penalty_of(text: str) -> Power | Wu:
    """The length penalty that "power:1" or "wu:0.6" names."""
    name, _, number = text.partition(":")
    kinds: dict[str, type[Power | Wu]] = {"power": Power, "wu": Wu}
    try:
        return kinds[name](float(number))
    except (KeyError, ValueError):
        raise InputError(
            f"length penalty {text!r:.40}: give power:A for L^A or wu:A for ((5 + L) / 6)^A, "
            "as in wu:0.6"
        ) from None


def choose(
    *,
    temperature: float = 0.0,
    top_k: int = 0,
    top_p: float = 1.0,
    min_p: float = 0.0,
    seed: int = 0,
    beam: int = 1,
    length_penalty: Power | Wu = Power(1.0),  # noqa: B008  frozen, so it can be shared
    n_best: int = 1,
    repetition: float = 1.0,
    no_repeat_ngram: int = 0,
    bias: Mapping[int, float] | None = None,
    allowed: Callable[[Sequence[int]], Collection[int]] | None = None,
    is_lookup: bool = False,
) -> Way:
    """The way that these options ask for; temperature 0 is greedy, a beam of 1 too."""
    # Made even where it is not used: a wrong value is wrong in every method.
    sample = Sample(temperature or 1.0, top_k, top_p, min_p, seed)
    method: Method = sample if temperature else GREEDY
    if beam != 1 or n_best != 1:
        if temperature or is_lookup:
            other = "sampling" if temperature else "guessing ahead"
            raise InputError(f"a beam of {beam} and {other} exclude each other; give one of them")
        method = Beam(beam, length_penalty, n_best)
    rules: list[Rule] = []
    if repetition != 1:
        rules.append(repetition_penalty(repetition))
    if no_repeat_ngram:
        rules.append(no_repeated_ngram(no_repeat_ngram))
    if bias:
        rules.append(biased(bias))
    if allowed is not None:
        rules.append(only_allowed(allowed))
    return Way(method, tuple(rules), is_lookup)
