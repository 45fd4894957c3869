"""Sentences that measure: taller than, the tallest of, so many years old."""

from __future__ import annotations

from random import Random

from lookleft.data.phrases.actions import Draw
from lookleft.data.phrases.choices import PEOPLE, draw_person, one_of
from lookleft.data.phrases.clauses import Sentence, joined
from lookleft.data.phrases.lexicon import Adjective, Noun, adjectives_for, nouns, nouns_of
from lookleft.data.phrases.morphology import inflect
from lookleft.data.phrases.nominal import noun_phrase
from lookleft.data.phrases.states import (
    draw_mood,
    draw_relative_or_name,
    draw_someone,
    state,
)

COMPARED = tuple(
    noun
    for noun in nouns()
    if noun.is_countable and any(a.comparative for a in adjectives_for(noun))
)


def draw_comparison(rng: Random) -> Sentence | None:
    """Ravi is taller than Sita; this house is older than that house."""
    if rng.random() < 0.5:
        first, second = draw_someone(rng), draw_person(rng, is_known=True)
        noun = PEOPLE[0]
        if second.english in first.english or "I" in (first.english, second.english):
            return None
    else:
        noun = one_of(rng, COMPARED)
        if noun.kind == "person":
            return None
        first = noun_phrase(noun, "this", is_plural=rng.random() < 0.2)
        second = noun_phrase(noun, "that", is_plural=first.number == "many")
    adjective = _comparable(rng, noun)
    if adjective is None:
        return None
    hindi = inflect(adjective.hindi, first.agreement.gender, first.agreement.is_plural)
    if not adjective.hindi.endswith("ा"):  # से बड़ा alone is enough, but से ज़्यादा सुंदर
        hindi = f"ज़्यादा {hindi}"
    return state(
        first,
        f"{adjective.comparative} than {second.as_object}",
        f"{second.with_postposition('से')} {hindi}",
        "now" if rng.random() < 0.8 else "past",
        draw_mood(rng, first),
    )


def _comparable(rng: Random, noun: Noun) -> Adjective | None:
    adjective = one_of(rng, adjectives_for(noun))
    return adjective if adjective.comparative else None


MEN = nouns_of(frozenset({"boy", "man", "student", "farmer", "teacher"}))
YOUNG = ("boy", "girl", "student")  # not said of elders
WOMEN = nouns_of(frozenset({"girl", "woman", "nurse"}))
REGIONS = nouns_of(frozenset({"village", "city", "school", "office"}))


def draw_superlative(rng: Random) -> Sentence | None:
    """Sita is the tallest girl in the village: गाँव की सबसे लंबी लड़की."""
    subject = draw_relative_or_name(rng)
    is_man = subject.agreement.gender == "m"
    noun, region = one_of(rng, MEN if is_man else WOMEN), one_of(rng, REGIONS)
    adjective = _comparable(rng, noun)
    if adjective is None or (subject.agreement.is_plural and noun.english in YOUNG):
        return None
    gender, is_plural = noun.gender, subject.agreement.is_plural
    where = noun_phrase(region, one_of(rng, ("the", "this", "that")))
    hindi = joined(
        where.genitive(gender, is_plural),
        "सबसे",
        inflect(adjective.hindi, gender, is_plural),
        # An elder is one person with plural agreement: सबसे अच्छे अध्यापक, but सबसे अच्छी औरत.
        noun.forms.direct_plural if is_plural and gender == "m" else noun.forms.direct,
    )
    english = f"the {adjective.superlative} {noun.english} in {where.english}"
    return state(subject, english, hindi, "now", draw_mood(rng, subject))


def draw_age(rng: Random) -> Sentence:
    """Sita is ten years old: दस साल की, agreeing with Sita."""
    subject = draw_relative_or_name(rng) if rng.random() < 0.6 else draw_someone(rng)
    is_elder = subject.number == "one" and subject.agreement.is_plural
    english, hindi = one_of(rng, AGES[7:] if is_elder else AGES)
    of = inflect("का", subject.agreement.gender, subject.agreement.is_plural)
    return state(
        subject, f"{english} years old", f"{hindi} साल {of}", "now", draw_mood(rng, subject)
    )


AGES = (
    ("six", "छह"),
    ("eight", "आठ"),
    ("ten", "दस"),
    ("twelve", "बारह"),
    ("fifteen", "पंद्रह"),
    ("eighteen", "अठारह"),
    ("twenty", "बीस"),
    ("thirty", "तीस"),
    ("forty", "चालीस"),
    ("fifty", "पचास"),
    ("sixty", "साठ"),
)


def patterns() -> list[tuple[str, int, Draw]]:
    """(name, share of the corpus, how to draw one) for every pattern of this file."""
    return [
        ("comparison/than", 7, draw_comparison),
        ("comparison/most", 4, draw_superlative),
        ("comparison/age", 4, draw_age),
    ]
