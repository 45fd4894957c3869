"""Sentences of two clauses: quoting, thinking, reasons, conditions, contrasts, relatives."""

from __future__ import annotations

from random import Random

from lookleft.data.phrases.actions import Draw, draw_clause, draw_thing
from lookleft.data.phrases.choices import PEOPLE, draw_owner, one_of
from lookleft.data.phrases.clauses import Mood, Sentence, clause
from lookleft.data.phrases.facts import draw_weather
from lookleft.data.phrases.lexicon import adjectives_for, nouns_of, verbs
from lookleft.data.phrases.morphology import inflect
from lookleft.data.phrases.nominal import (
    HE,
    I_WOMAN,
    NAMES,
    PRONOUNS,
    SHE,
    THEY,
    WE,
    YOU,
    I,
    Phrase,
    noun_phrase,
)
from lookleft.data.phrases.states import draw_quality, state
from lookleft.data.phrases.tenses import Tense

PRESENT: tuple[Tense, ...] = ("habitual", "progressive", "future", "can", "want", "have-to")
REFUSED: tuple[Tense, ...] = ("progressive", "future", "can", "want")
CONTRASTED: tuple[Tense, ...] = ("habitual", "progressive", "past", "future")
RELATED: tuple[Tense, ...] = ("habitual", "progressive", "past", "past-progressive")
ANY_TENSE: tuple[Tense, ...] = (*PRESENT, "past", "perfect", "past-progressive")


def capitalised(text: str) -> str:
    """The text with a capital first letter."""
    return text[:1].upper() + text[1:]


def draw_quote(rng: Random) -> Sentence | None:
    """Sita said, "I am going home.": only her name makes the Hindi feminine."""
    speaker = one_of(rng, NAMES)
    subject = I if speaker.agreement.gender == "m" else I_WOMAN
    mood: Mood = "negative" if rng.random() < 0.25 else "statement"
    said = draw_clause(rng, one_of(rng, ANY_TENSE), mood, subject)
    if said is None:
        return None
    return Sentence(
        f'{speaker.english} said, "{capitalised(said.english)}',
        f'{speaker.hindi} ने कहा, "{said.hindi}',
        '."',
    )


def draw_report(rng: Random) -> Sentence | None:
    """Ravi said that he will come: Hindi keeps the tense of the words that were said."""
    speaker = one_of(rng, NAMES)
    subject = HE if speaker.agreement.gender == "m" else SHE
    said = draw_clause(rng, one_of(rng, PRESENT), "statement", subject)
    if said is None:
        return None
    return Sentence(
        f"{speaker.english} said that {said.english}", f"{speaker.hindi} ने कहा कि {said.hindi}"
    )


OPINIONS = (
    ("think", "thinks", "लगता है"),
    ("know", "knows", "मालूम है"),
    ("hope", "hopes", "उम्मीद है"),
)


def draw_opinion(rng: Random) -> Sentence | None:
    """I think that Ravi is sick: मुझे लगता है कि ..."""
    thinker = one_of(rng, PRONOUNS if rng.random() < 0.6 else NAMES)
    base, third, hindi = one_of(rng, OPINIONS)
    tense = "future" if base == "hope" else one_of(rng, ANY_TENSE)
    thought = draw_clause(rng, tense, is_short=rng.random() < 0.5)
    if base != "hope" and rng.random() < 0.35:
        thought = draw_quality(rng)
    if thought is None or thought.mark == "?":
        return None
    verb = third if thinker.number == "one" else base
    return Sentence(
        f"{thinker.english} {verb} that {thought.english}",
        f"{thinker.with_postposition('को')} {hindi} कि {thought.hindi}",
    )


REASONS = ("sick", "tired", "busy", "sad", "angry", "alone", "lazy")


def draw_because(rng: Random) -> Sentence | None:
    """She is not coming because she is sick; the reason may be the weather."""
    subject = one_of(rng, (I, YOU, HE, SHE, WE, THEY))
    tense = one_of(rng, REFUSED)
    mood: Mood = "negative" if rng.random() < 0.75 else "statement"
    fact = draw_clause(rng, tense, mood, subject, is_short=rng.random() < 0.3)
    if fact is None:
        return None
    if rng.random() < 0.25:
        reason = draw_weather(rng)
        if not reason.english.startswith("it is"):
            return None
    else:
        adjective = one_of(rng, adjectives_for(PEOPLE[0], is_predicate=True))
        if adjective.english not in (REASONS if mood == "negative" else ("happy",)):
            return None
        to = subject.agreement
        hindi = inflect(adjective.hindi, to.gender, to.is_plural)
        reason = state(subject, adjective.english, hindi, "now", "statement")
    return Sentence(
        f"{fact.english} because {reason.english}", f"{fact.hindi} क्योंकि {reason.hindi}"
    )


def _two_names(rng: Random) -> tuple[Phrase, Phrase]:
    first, second = rng.sample(NAMES, 2)
    return first, second


def draw_contrast(rng: Random) -> Sentence | None:
    """Ravi is reading, but Sita is sleeping; each verb agrees with its own subject."""
    first, second = _two_names(rng)
    if rng.random() < 0.4:
        first = one_of(rng, (I, HE, SHE, WE))
    tense = one_of(rng, CONTRASTED)
    one = draw_clause(rng, tense, "statement", first, is_short=True)
    is_but = rng.random() < 0.6
    mood: Mood = "negative" if is_but and rng.random() < 0.4 else "statement"
    other = draw_clause(rng, tense, mood, second, is_short=True)
    if one is None or other is None:
        return None
    if is_but:
        return Sentence(f"{one.english}, but {other.english}", f"{one.hindi}, लेकिन {other.hindi}")
    return Sentence(f"{one.english} and {other.english}", f"{one.hindi} और {other.hindi}")


def draw_condition(rng: Random) -> Sentence | None:
    """If you come, I will make tea: future in both Hindi clauses, with तो between."""
    first = one_of(rng, (YOU, HE, SHE, THEY, *NAMES[::3]))
    second = one_of(rng, (I, WE, *NAMES[1::3]))
    verb = one_of(rng, verbs())
    if verb.tags & {"needs-adjunct", "stative", "sudden"} or verb.english == verb.past:
        return None
    if rng.random() < 0.2:
        said, meant = "it rains", "बारिश होगी"
    else:
        thing = draw_thing(rng, verb, first, article="a")
        said = clause(first, verb, "habitual", thing=thing).english
        meant = clause(first, verb, "future", thing=thing).hindi
    mood: Mood = "negative" if rng.random() < 0.3 else "statement"
    result = draw_clause(rng, "future", mood, second, is_short=rng.random() < 0.5)
    if result is None:
        return None
    return Sentence(f"if {said}, {result.english}", f"अगर {meant}, तो {result.hindi}")


def draw_meanwhile(rng: Random) -> Sentence | None:
    """When I was sleeping, Ravi came: जब ... तब."""
    first = one_of(rng, (*PRONOUNS, *NAMES))
    second = one_of(rng, NAMES)
    was_doing = draw_clause(rng, "past-progressive", "statement", first, is_short=True)
    did = draw_clause(rng, "past", "statement", second, is_short=True)
    if was_doing is None or did is None or second is first:
        return None
    return Sentence(
        f"when {was_doing.english}, {did.english}", f"जब {was_doing.hindi}, तब {did.hindi}"
    )


MEN = nouns_of(frozenset({"boy", "man"}))
WOMEN = nouns_of(frozenset({"girl", "woman"}))
MALE_RELATIVES = nouns_of(frozenset({"brother", "son", "friend", "neighbor", "teacher"}))
FEMALE_RELATIVES = nouns_of(frozenset({"sister", "daughter"}))


def draw_relative_clause(rng: Random) -> Sentence | None:
    """The girl who is reading a book is my sister: जो ..., वह ..."""
    is_man = rng.random() < 0.5
    noun = one_of(rng, MEN if is_man else WOMEN)
    relative = one_of(rng, MALE_RELATIVES if is_man else FEMALE_RELATIVES)
    who = noun_phrase(noun, "the")
    # In Hindi the noun moves inside: "which girl is reading, she is my sister".
    inside = who._replace(
        english=f"{who.english} who", hindi=f"जो {who.hindi}", oblique=f"जिस {who.oblique}"
    )
    tense = one_of(rng, RELATED)
    doing = draw_clause(rng, tense, "statement", inside)
    if doing is None:
        return None
    kin = noun_phrase(relative, owner=draw_owner(rng, relative))
    return Sentence(f"{doing.english} is {kin.english}", f"{doing.hindi}, वह {kin.hindi} है")


def patterns() -> list[tuple[str, int, Draw]]:
    """(name, share of the corpus, how to draw one) for every pattern of this file."""
    return [
        ("compound/quote", 12, draw_quote),
        ("compound/report", 7, draw_report),
        ("compound/opinion", 7, draw_opinion),
        ("compound/because", 7, draw_because),
        ("compound/contrast", 7, draw_contrast),
        ("compound/condition", 6, draw_condition),
        ("compound/when", 5, draw_meanwhile),
        ("compound/relative", 5, draw_relative_clause),
    ]
