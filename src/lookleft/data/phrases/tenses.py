"""Verb groups in both languages: which auxiliary, which participle, where "not" stands."""

from __future__ import annotations

from functools import cache
from typing import Literal, get_args

from lookleft.data.phrases.lexicon import Verb
from lookleft.data.phrases.morphology import (
    Agreement,
    future,
    imperfective,
    infinitive,
    inflect,
    is_now,
    perfective,
    was,
)
from lookleft.data.phrases.nominal import EnglishNumber

Tense = Literal[
    "habitual",
    "progressive",
    "past",
    "perfect",
    "past-perfect",
    "past-progressive",
    "used-to",
    "future",
    "can",
    "want",
    "have-to",
    "should",
    "had-to",
]
TENSES: tuple[Tense, ...] = get_args(Tense)
PERFECTIVE: frozenset[Tense] = frozenset({"past", "perfect", "past-perfect"})
DUTY: frozenset[Tense] = frozenset({"have-to", "should", "had-to"})  # the subject takes को
PROGRESSIVE: frozenset[Tense] = frozenset({"progressive", "past-progressive"})

BE_NOW = {"I": "am", "one": "is", "many": "are"}
BE_PAST = {"I": "was", "one": "was", "many": "were"}


def english_verb(verb: Verb, tense: Tense, number: EnglishNumber) -> tuple[str, str, str]:
    """(auxiliary, rest, whole): whole is the plain statement, the other two serve not and ?."""
    is_one = number == "one"
    do, have = ("does", "has") if is_one else ("do", "have")
    base = verb.english
    match tense:
        case "habitual":
            return do, base, verb.third if is_one else base
        case "past":
            return "did", base, verb.past
        case "progressive":
            return _pair(BE_NOW[number], verb.ing)
        case "past-progressive":
            return _pair(BE_PAST[number], verb.ing)
        case "perfect":
            return _pair(have, verb.participle)
        case "past-perfect":
            return _pair("had", verb.participle)
        case "used-to":
            return "did", f"use to {base}", f"used to {base}"
        case "future":
            return _pair("will", base)
        case "can" | "should":
            return _pair(tense, base)
        case "want":
            return do, f"want to {base}", f"{'wants' if is_one else 'want'} to {base}"
        case "have-to":
            return do, f"have to {base}", f"{have} to {base}"
        case "had-to":
            return "did", f"have to {base}", f"had to {base}"


def _pair(auxiliary: str, rest: str) -> tuple[str, str, str]:
    return auxiliary, rest, f"{auxiliary} {rest}"


def negated(auxiliary: str) -> str:
    """ "does not", but "cannot"."""
    return "cannot" if auxiliary == "can" else f"{auxiliary} not"


@cache
def hindi_verb(
    verb: Verb,
    tense: Tense,
    agreement: Agreement,
    *,
    is_negative: bool = False,
    asking: str = "",
) -> str:
    """The whole verb group; नहीं stands after the host noun and before the first verb form.

    A question word comes before a host, but may not part it from its owner: मेरी मदद क्यों.
    """
    before, group = _group(verb, tense, agreement, is_negative)
    not_ = "नहीं " if is_negative else ""
    asking = f"{asking} " if asking else ""
    host = f"{verb.host} " if verb.host else ""
    host = f"{host}{asking}" if verb.frame == "का" else f"{asking}{host}"
    return f"{host}{before}{not_}{group}"


def _group(verb: Verb, tense: Tense, to: Agreement, is_negative: bool) -> tuple[str, str]:
    """(what नहीं follows, what it precedes)."""
    stem = verb.stem
    # A negated habit loses its auxiliary: जाता हूँ, but नहीं जाता.
    present = "" if is_negative else f" {is_now(to)}"
    match tense:
        case "habitual":
            return "", imperfective(stem, to, has_auxiliary=not is_negative) + present
        case "progressive":
            return "", f"{stem} {inflect('रहा', to.gender, to.is_plural)} {is_now(to)}"
        case "past-progressive":
            return "", f"{stem} {inflect('रहा', to.gender, to.is_plural)} {was(to)}"
        case "past":
            return "", _perfective(verb, to, has_auxiliary=False)
        case "perfect":
            return "", f"{_perfective(verb, to, has_auxiliary=True)} {is_now(to)}"
        case "past-perfect":
            return "", f"{_perfective(verb, to, has_auxiliary=True)} {was(to)}"
        case "used-to":
            return "", f"{imperfective(stem, to)} {was(to)}"
        case "future":
            return "", future(stem, to)
        case "can":
            can = imperfective("सक", to, has_auxiliary=not is_negative)
            return "", f"{stem} {can}{present}"
        case "want":
            want = imperfective("चाह", to, has_auxiliary=not is_negative)
            return f"{infinitive(stem)} ", want + present
        case "have-to":
            return "", f"{infinitive(stem, to)} {is_now(to)}"
        case "should":
            return "", f"{infinitive(stem, to)} चाहिए"
        case "had-to":
            return "", f"{infinitive(stem, to)} {perfective('पड़', to)}"


def _perfective(verb: Verb, to: Agreement, *, has_auxiliary: bool) -> str:
    if "vector" in verb.tags:  # falling and sitting down happen at once: गिर गया, not गिरा
        return f"{verb.stem} {perfective('जा', to, has_auxiliary=has_auxiliary)}"
    return perfective(verb.stem, to, has_auxiliary=has_auxiliary)
