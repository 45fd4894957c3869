"""Sentences about being: qualities, trades, places, possessions, likings, feelings, comparison."""

from __future__ import annotations

from functools import partial
from random import Random
from typing import Literal

from lookleft.data.phrases.actions import Draw
from lookleft.data.phrases.choices import (
    PEOPLE,
    draw_noun,
    draw_owner,
    draw_person,
    one_of,
)
from lookleft.data.phrases.clauses import Mood, Sentence, joined
from lookleft.data.phrases.lexicon import (
    Noun,
    adjectives_for,
    nouns,
    nouns_of,
)
from lookleft.data.phrases.morphology import Agreement, future, inflect, is_now, noun_forms, was
from lookleft.data.phrases.nominal import (
    HE,
    NAMES,
    NUMBERS,
    PRONOUNS,
    Phrase,
    noun_phrase,
    together,
    with_article,
)
from lookleft.data.phrases.settings import CITIES, Adjunct
from lookleft.data.phrases.tenses import BE_NOW, BE_PAST

When = Literal["now", "past", "future"]

DESCRIBED = tuple(noun for noun in nouns() if adjectives_for(noun, is_predicate=True))
THINGS = nouns_of(frozenset({"thing", "text", "clothes", "food", "vehicle"}))
SMALL_THINGS = nouns_of(
    frozenset({"lost", "book", "letter", "newspaper", "magazine", "breakable", "fruit"})
)
OWNED = nouns_of(frozenset({"goods", "pet", "lost"}))
RELATIVES = tuple(n for n in nouns_of(frozenset({"kin"})) if n.is_countable)
LIKED = nouns_of(
    frozenset(
        {"food", "drink", "text", "show", "song", "music", "clothes", "language", "game", "place"}
    )
)
JOBS = nouns_of(frozenset({"job"}))
FEMININE_JOBS = {
    "अध्यापक": "अध्यापिका",
    "छात्र": "छात्रा",
    "लेखक": "लेखिका",
    "गायक": "गायिका",
}
SPOTS = (  # English, Hindi after the oblique, the kinds of things it fits
    ("on", "पर", frozenset({"surface"})),
    ("under", "के नीचे", frozenset({"surface", "tree"})),
    ("in", "में", frozenset({"container", "room"})),
    ("near", "के पास", frozenset({"building", "surface", "river", "market", "village", "field"})),
    ("behind", "के पीछे", frozenset({"building", "fixture", "tree"})),
    ("in front of", "के सामने", frozenset({"building", "fixture"})),
)


def state(
    subject: Phrase,
    english: str,
    hindi: str,
    when: When,
    mood: Mood,
    *,
    asks: Adjunct | None = None,
) -> Sentence:
    """ "subject is ...": the Hindi verb stands last and agrees with the subject."""
    be = "will" if when == "future" else (BE_NOW if when == "now" else BE_PAST)[subject.number]
    end = "be" if when == "future" else ""
    verb = verb_to_be(subject.agreement, when)
    if asks:
        return Sentence(
            joined(asks.english, be, subject.english, end, english),
            joined(subject.hindi, hindi, asks.hindi, verb),
            "?",
        )
    if mood == "question":
        said = joined(be, subject.english, end, english)
        return Sentence(said, joined("क्या", subject.hindi, hindi, verb), "?")
    not_english, not_hindi = ("not", "नहीं") if mood == "negative" else ("", "")
    return Sentence(
        joined(subject.english, be, not_english, end, english),
        joined(subject.hindi, hindi, not_hindi, verb),
    )


def verb_to_be(agreement: Agreement, when: When) -> str:
    """है, था or होगा, agreeing."""
    if when == "now":
        return is_now(agreement)
    return was(agreement) if when == "past" else future("हो", agreement)


def draw_someone(rng: Random) -> Phrase:
    """A pronoun, a name, two names, or a known person described."""
    dice = rng.random()
    if dice < 0.4:
        return one_of(rng, PRONOUNS)
    if dice < 0.5:
        return together(*rng.sample(NAMES, 2))
    return draw_person(rng, is_known=True)


def draw_mood(rng: Random, subject: Phrase) -> Mood:
    """Mostly statements; one seldom asks whether one is hungry oneself."""
    dice = rng.random()
    if dice < 0.55 or (dice >= 0.75 and subject.agreement.person == 1):
        return "statement"
    return "negative" if dice < 0.75 else "question"


def draw_when(rng: Random) -> When:
    """Mostly now."""
    dice = rng.random()
    return "now" if dice < 0.6 else ("past" if dice < 0.9 else "future")


def draw_quality(rng: Random) -> Sentence | None:
    """The milk is cold; my sister was very tired."""
    noun = one_of(rng, DESCRIBED if rng.random() < 0.6 else PEOPLE)
    if noun.kind == "person":
        subject, noun = draw_someone(rng), PEOPLE[0]
    else:
        subject = draw_noun(rng, noun, article="", adjective_chance=0.0, is_known=True)
    adjective = one_of(rng, adjectives_for(noun, is_predicate=True))
    agreement = subject.agreement
    when = draw_when(rng)
    if when == "future" and (agreement.person == 1 or noun.kind not in ("person", "place")):
        return None
    hindi = inflect(adjective.hindi, agreement.gender, agreement.is_plural)
    english = adjective.english
    if rng.random() < 0.25 and english not in ("fine", "alone", "ready"):
        english, hindi = f"very {english}", f"बहुत {hindi}"
    return state(subject, english, hindi, when, draw_mood(rng, subject))


def draw_trade(rng: Random) -> Sentence:
    """She is a teacher: अध्यापिका for a woman, and no "a" in Hindi."""
    subject = one_of(rng, PRONOUNS) if rng.random() < 0.4 else draw_relative_or_name(rng)
    if rng.random() < 0.2:
        subject = together(*rng.sample(NAMES, 2))
    noun, is_plural = one_of(rng, JOBS), subject.number == "many" and subject.english != "you"
    hindi = noun.forms.direct
    if subject.agreement.gender == "f" and hindi in FEMININE_JOBS:
        forms = noun_forms(FEMININE_JOBS[hindi], "f")
        hindi = forms.direct_plural if is_plural else forms.direct
    english = (noun.plural or "") if is_plural else with_article(noun.english)
    when: When = "now" if rng.random() < 0.75 else "past"
    return state(subject, english, hindi, when, draw_mood(rng, subject))


def draw_relative_or_name(rng: Random) -> Phrase:
    """Ravi, my brother, her mother."""
    if rng.random() < 0.4:
        return one_of(rng, NAMES)
    kin = nouns_of(frozenset({"kin"}))
    noun = one_of(rng, kin)
    return noun_phrase(noun, owner=draw_owner(rng, noun))


def draw_this(rng: Random) -> Sentence:
    """This is my book; those are Ravi's shoes."""
    noun = one_of(rng, THINGS)
    is_plural = noun.is_countable and rng.random() < 0.35
    adjective = one_of(rng, adjectives_for(noun)) if rng.random() < 0.3 else None
    thing = noun_phrase(noun, is_plural=is_plural, adjective=adjective, owner=draw_owner(rng, noun))
    is_near = rng.random() < 0.5
    english = ("these" if is_plural else "this") if is_near else ("those" if is_plural else "that")
    hindi = ("ये" if is_plural else "यह") if is_near else ("वे" if is_plural else "वह")
    subject = Phrase(english, hindi, hindi, thing.agreement, thing.number, "thing")
    return state(subject, thing.english, thing.hindi, "now", draw_mood(rng, subject))


def draw_spot(rng: Random) -> tuple[str, str, Noun]:
    """(English, Hindi, the noun): on the table, behind the house."""
    english, hindi, kinds = one_of(rng, SPOTS)
    noun = one_of(rng, nouns_of(kinds))
    which = one_of(rng, ("the", "the", "this", "that")) if noun.is_countable else "the"
    phrase = noun_phrase(noun, which)
    return f"{english} {phrase.english}", f"{phrase.oblique} {hindi}", noun


def draw_located(rng: Random, *, is_asking: bool) -> Sentence | None:
    """The key is on the table; where is my book?"""
    english, hindi, noun = draw_spot(rng)
    if rng.random() < 0.4:
        if noun.kind != "place" and not is_asking:
            return None
        subject = draw_someone(rng)
    else:
        thing = one_of(rng, SMALL_THINGS)
        subject = draw_noun(rng, thing, article="", adjective_chance=0.15, is_known=True)
        if not is_asking and not noun.kinds & {"surface", "container", "room"}:
            return None
    when: When = "now" if rng.random() < 0.65 else "past"
    if is_asking:
        return state(subject, "", "", when, "question", asks=Adjunct("where", "कहाँ"))
    return state(subject, english, hindi, when, draw_mood(rng, subject))


def draw_existing(rng: Random) -> Sentence | None:
    """There are two books on the table: the place comes first in Hindi."""
    english, hindi, noun = draw_spot(rng)
    pool = THINGS if noun.kind != "place" else nouns_of(frozenset({"animal", "person", "tree"}))
    thing = one_of(rng, SMALL_THINGS if noun.kinds & {"surface", "container"} else pool)
    if not thing.is_countable or "kin" in thing.kinds or thing is noun:
        return None
    mood, is_now_ = draw_mood(rng, HE), rng.random() < 0.7
    is_plural = mood == "negative" or rng.random() < 0.5
    count = one_of(rng, tuple(NUMBERS)) if is_plural else ("a?" if mood == "question" else "a")
    if mood == "negative":
        phrase = noun_phrase(thing, "", is_plural=True)
    else:
        phrase = noun_phrase(thing, count, is_plural=is_plural)
    be = (BE_NOW if is_now_ else BE_PAST)[phrase.number]
    verb = verb_to_be(phrase.agreement, "now" if is_now_ else "past")
    if mood == "question":
        return Sentence(
            joined(be, "there", phrase.english, english),
            joined("क्या", hindi, phrase.hindi, verb),
            "?",
        )
    no_english, no_hindi = ("no", "नहीं") if mood == "negative" else ("", "")
    return Sentence(
        joined("there", be, no_english, phrase.english, english),
        joined(hindi, phrase.hindi, no_hindi, verb),
    )


POSTURES = (("sitting", "बैठा"), ("standing", "खड़ा"), ("lying", "लेटा"))


def draw_posture(rng: Random) -> Sentence | None:
    """The cat is sitting on the chair: a state in Hindi (बैठी है), not an action."""
    english, hindi, noun = draw_spot(rng)
    posture, participle = one_of(rng, POSTURES)
    if posture == "lying" and noun.english not in ("bed", "tree", "garden", "room", "field"):
        return None
    if english.startswith("in") and noun.kind != "place":
        return None
    animals = nouns_of(frozenset({"animal"}))
    if english.startswith("under") and noun.kind != "plant":
        return None
    if posture == "standing" and english.startswith("on "):
        return None
    subject = draw_noun(rng, one_of(rng, animals)) if rng.random() < 0.4 else draw_someone(rng)
    agreement = subject.agreement
    inflected = inflect(participle, agreement.gender, agreement.is_plural)
    when: When = "now" if rng.random() < 0.6 else "past"
    be = (BE_NOW if when == "now" else BE_PAST)[subject.number]
    verb = f"{inflected} {verb_to_be(agreement, when)}"
    if rng.random() < 0.25:
        return Sentence(
            joined(be, subject.english, posture, english),
            joined("क्या", subject.hindi, hindi, verb),
            "?",
        )
    return Sentence(
        joined(subject.english, be, posture, english), joined(subject.hindi, hindi, verb)
    )


def draw_origin(rng: Random) -> Sentence:
    """I am from Delhi."""
    city = one_of(rng, CITIES)
    subject = draw_someone(rng)
    return state(subject, f"from {city.english}", f"{city.hindi} से", "now", draw_mood(rng, subject))


def patterns() -> list[tuple[str, int, Draw]]:
    """(name, share of the corpus, how to draw one) for every pattern of this file."""
    return [
        ("state/quality", 20, draw_quality),
        ("state/trade", 6, draw_trade),
        ("state/this", 6, draw_this),
        ("state/located", 6, partial(draw_located, is_asking=False)),
        ("state/where", 3, partial(draw_located, is_asking=True)),
        ("state/existing", 6, draw_existing),
        ("state/posture", 5, draw_posture),
        ("state/origin", 2, draw_origin),
    ]
