"""Random choices that make sense: who acts, on what, where, and when."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from random import Random
from typing import TypeVar

from lookleft.data.phrases.lexicon import Adjective, Noun, Verb, adjectives_for, nouns_of
from lookleft.data.phrases.nominal import (
    HE,
    NAMES,
    NUMBERS,
    PRONOUNS,
    SHE,
    I,
    Phrase,
    noun_phrase,
    together,
)
from lookleft.data.phrases.settings import (
    ANY_TIME,
    CITIES,
    CITY_GOALS,
    CLOCK,
    HOME,
    MEANS,
    RIVERS,
    SEATS,
    TIMES,
    Adjunct,
)
from lookleft.data.phrases.tenses import DUTY, PERFECTIVE, PROGRESSIVE, Tense

T = TypeVar("T")


def one_of(rng: Random, items: Sequence[T]) -> T:
    """One item, each as likely; quicker than `Random.choice`, and this is called often."""
    return items[int(rng.random() * len(items))]


PEOPLE = nouns_of(frozenset({"person"}))
ANIMALS = nouns_of(frozenset({"animal"}))
VEHICLES = nouns_of(frozenset({"public"}))
GOALS = nouns_of(frozenset({"goal"}))
COUNTS = tuple(NUMBERS)
FEW = ("two", "three", "four", "five", "many", "some")


def draw_time(rng: Random, tense: Tense, verb: Verb) -> Adjunct:
    """A time that suits the tense; nobody lives or loves at five o'clock."""
    if "timeless" in verb.tags:
        return Adjunct()
    time = one_of(rng, TIMES[tense])
    return one_of(rng, ANY_TIME) if time in CLOCK and verb.frame != "none" else time


def draw_person(rng: Random, *, is_known: bool = False) -> Phrase:
    """A name or a person described; a known one is "the" or "my", not "a"."""
    if rng.random() < 0.35:
        return one_of(rng, NAMES)
    return draw_noun(rng, one_of(rng, PEOPLE), is_known=is_known)


def draw_subject(rng: Random, verb: Verb, *, is_known: bool = False) -> Phrase:
    """Somebody, or some animal or vehicle, that can do what the verb says."""
    dice = rng.random()
    if "vehicle" in verb.tags and dice < 0.15:
        return noun_phrase(one_of(rng, VEHICLES), one_of(rng, ("the", "this", "that")))
    if "animal" in verb.tags and dice < 0.3:
        return draw_noun(rng, one_of(rng, ANIMALS), is_known=is_known)
    if dice < 0.6:
        return one_of(rng, PRONOUNS)
    if dice < 0.66:
        first, second = rng.sample(NAMES, 2)
        return together(first, second)
    return draw_person(rng, is_known=is_known)


def draw_adjective(rng: Random, noun: Noun, chance: float) -> Adjective | None:
    """An adjective that suits the noun, or none."""
    if rng.random() >= chance or noun.is_elder:
        return None
    fitting = adjectives_for(noun)
    return one_of(rng, fitting) if fitting else None


def draw_noun(
    rng: Random,
    noun: Noun,
    *,
    subject: Phrase | None = None,
    article: str = "a",
    adjective_chance: float = 0.25,
    is_known: bool = False,
) -> Phrase:
    """A noun with something before it; with a subject, also "my own", "his own".

    A possessive that could mean the subject always does (Ravi read his book: अपनी किताब).
    """
    if noun.kind in BARE_KINDS:
        return noun_phrase(noun, "")
    is_kin = "kin" in noun.kinds
    adjective = draw_adjective(rng, noun, adjective_chance * (0.4 if is_kin else 1.0))
    dice = rng.random()
    if is_kin or (dice < OWNED_CHANCE.get(noun.kind, 0.25) and _is_owned(noun, subject)):
        return _owned(rng, noun, adjective, subject)
    if not noun.is_countable:
        which = one_of(rng, ("the", "this", "that") if is_known else ("the", "this", "that", ""))
        which = "the" if noun.kind == "place" else which
        return noun_phrase(noun, which, adjective=adjective)
    if dice < (0.6 if is_known else 0.45):
        return noun_phrase(noun, "the", adjective=adjective)
    if dice < 0.6 and article:
        return noun_phrase(noun, article, adjective=adjective)
    if dice < (0.9 if is_known else 0.72):
        this = one_of(rng, ("this", "that"))
        return noun_phrase(noun, this, is_plural=rng.random() < 0.4, adjective=adjective)
    if dice < 0.84:
        counts = FEW if noun.kind == "person" else COUNTS
        return noun_phrase(noun, one_of(rng, counts), is_plural=True, adjective=adjective)
    is_bare = dice > 0.92 and not is_known and bool(noun.kinds & SAID_BARE)
    return noun_phrase(noun, "" if is_bare else "the", is_plural=True, adjective=adjective)


BARE_KINDS = ("language", "game", "subject")  # "Hindi", "cricket": nothing stands before them
SAID_BARE = frozenset({"food", "text", "goods", "show", "song"})  # "I like books"
OWNED_CHANCE = {"nature": 0.0, "plant": 0.0, "show": 0.0, "food": 0.08, "drink": 0.08}


def _is_owned(noun: Noun, subject: Phrase | None) -> bool:
    if subject is not None and subject.kind == "animal":
        return False
    return noun.kind not in ("person", "animal") or bool(noun.kinds & {"own", "pet"})


def _owned(rng: Random, noun: Noun, adjective: Adjective | None, subject: Phrase | None) -> Phrase:
    is_plural = noun.is_countable and rng.random() < 0.25
    if subject is not None and _may_own(subject, noun) and rng.random() < 0.7:
        return noun_phrase(
            noun, is_plural=is_plural, adjective=adjective, owner=subject, is_own=True
        )
    owner = draw_owner(rng, noun)
    is_own = subject is not None and (
        owner.possessive == subject.possessive
        if owner.joined
        else owner.english in subject.english.split(" and ")
    )
    if is_own and subject is not None:
        owner = subject
    return noun_phrase(noun, is_plural=is_plural, adjective=adjective, owner=owner, is_own=is_own)


def draw_owner(rng: Random, noun: Noun) -> Phrase:
    """Whose it is: a pronoun or a name; a wife is a man's, a husband a woman's."""
    if "of-man" in noun.kinds:
        return one_of(rng, HUSBANDS)
    if "of-woman" in noun.kinds:
        return one_of(rng, WIVES)
    return one_of(rng, PRONOUNS if rng.random() < 0.65 else NAMES)


HUSBANDS = (I, HE, *(name for name in NAMES if name.agreement.gender == "m"))
WIVES = (SHE, *(name for name in NAMES if name.agreement.gender == "f"))


def _may_own(subject: Phrase, noun: Noun) -> bool:
    spouse = "m" if "of-man" in noun.kinds else ("f" if "of-woman" in noun.kinds else "")
    is_sole = noun.kind != "person" or subject.number != "many"
    return not spouse or (spouse == subject.agreement.gender and is_sole)


def draw_object(rng: Random, verb: Verb, subject: Phrase, *, article: str = "a") -> Phrase:
    """Something the verb can be done to, never the subject itself."""
    if subject.kind == "animal":
        return draw_noun(rng, one_of(rng, animal_food(verb.objects)), subject=subject)
    noun = one_of(rng, nouns_of(verb.objects))
    if verb.english == "wear" and not _may_own(subject, noun):
        noun = one_of(rng, nouns_of(frozenset({"kurta", "shirt", "coat"})))  # men wear no saris
    if noun.kind == "person" and rng.random() < 0.55:
        other = one_of(rng, PRONOUNS if rng.random() < 0.5 else NAMES)
        # "He helps him" would be somebody else in Hindi and English alike, but dull: ask again.
        if not _overlaps(other, subject):
            return other
    return draw_noun(
        rng,
        noun,
        subject=subject,
        article=article,
        adjective_chance=0.0 if verb.host else 0.25,  # nobody cleans what is clean
        is_known="lasting" in verb.tags,
    )


@cache
def animal_food(objects: frozenset[str]) -> tuple[Noun, ...]:
    """What a tiger or a cow would eat or drink of all that people do."""
    return tuple(noun for noun in nouns_of(objects) if noun.kinds & {"feed", "fruit"})


def _overlaps(other: Phrase, subject: Phrase) -> bool:
    if other.joined:
        same_speaker = {other.english, subject.english} == {"I", "we"}
        return other.english == subject.english or same_speaker
    return other.english in subject.english


def draw_adjunct(rng: Random, verb: Verb, subject: Phrase) -> Adjunct:
    """A place, companion, means or beneficiary that suits the verb."""
    if not verb.adjuncts:
        return Adjunct()
    match one_of(rng, verb.adjuncts):
        case "goal" | "means" | "with" if subject.kind == "vehicle":
            return one_of(rng, CITY_GOALS[:-1])
        case "goal":
            return draw_goal(rng)
        case "reach":
            goal = one_of(rng, CITY_GOALS[:-1]) if subject.kind == "vehicle" else draw_goal(rng)
            english = goal.english.replace("to ", "in " if goal in CITY_GOALS else "at ", 1)
            return Adjunct(english, goal.hindi)
        case "city":
            city = one_of(rng, CITIES)
            return Adjunct(f"in {city.english}", f"{city.hindi} में")
        case "seat":
            return one_of(rng, SEATS)
        case "means":
            return one_of(rng, MEANS)
        case "river":
            return one_of(rng, RIVERS)
        case "with" | "for" if subject.kind == "animal":
            return Adjunct()
        case "with":
            return _beneficiary(rng, subject, "with", "साथ")
        case "for":
            return _beneficiary(rng, subject, "for", "लिए")
        case kind:
            return draw_place(rng, "open" if subject.kind == "animal" else kind)


def _beneficiary(rng: Random, subject: Phrase, english: str, hindi: str) -> Adjunct:
    person = draw_noun(rng, one_of(rng, KIN), subject=subject, adjective_chance=0.0)
    if rng.random() < 0.5:
        other = one_of(rng, PRONOUNS if rng.random() < 0.5 else NAMES)
        if not _overlaps(other, subject):
            person = other
    return Adjunct(f"{english} {person.as_object}", person.beside(hindi))


KIN = nouns_of(frozenset({"kin", "own"}))


def draw_goal(rng: Random) -> Adjunct:
    """Where one goes: home, to a city, to a place; Hindi needs no postposition for it."""
    dice = rng.random()
    if dice < 0.15:
        return HOME
    if dice < 0.45:
        return one_of(rng, CITY_GOALS)
    goal = noun_phrase(one_of(rng, GOALS), "the")
    return Adjunct(f"to {goal.english}", goal.oblique)


def draw_place(rng: Random, kind: str) -> Adjunct:
    """Where something happens: in the room, in that old house, at the station."""
    place = one_of(rng, nouns_of(frozenset({kind})))
    which = one_of(rng, ("the", "the", "the", "this", "that"))
    phrase = noun_phrase(place, which, adjective=draw_adjective(rng, place, 0.15))
    if "at" in place.kinds:
        return Adjunct(f"at {phrase.english}", f"{phrase.oblique} पर")
    return Adjunct(f"in {phrase.english}", f"{phrase.oblique} में")


def suits(verb: Verb, tense: Tense) -> bool:
    """Whether a verb is said in this tense at all: nobody "is knowing"."""
    if "imperfective" in verb.tags and tense in PERFECTIVE:
        return False
    if "momentary" in verb.tags and tense in PROGRESSIVE:
        return False
    if "lasting" in verb.tags and tense in LASTING_REFUSES:
        return False
    if "unwilled" in verb.tags and tense in UNWILLED_REFUSES:
        return False
    if "sudden" in verb.tags and tense not in PERFECTIVE:
        return False
    return not ("stative" in verb.tags and tense in STATIVE_REFUSES)


STATIVE_REFUSES = frozenset(
    {"progressive", "past-progressive", "had-to", "have-to", "past-perfect"}
)
UNWILLED_REFUSES = DUTY | {"can", "want"}
LASTING_REFUSES = STATIVE_REFUSES | {"future", "can", "want", "perfect"}
