"""Clauses: a subject, a verb and what belongs to it, in English order and in Hindi order."""

from __future__ import annotations

from typing import Literal, NamedTuple

from lookleft.data.phrases.lexicon import Verb
from lookleft.data.phrases.morphology import DEFAULT_AGREEMENT, Agreement
from lookleft.data.phrases.nominal import Phrase
from lookleft.data.phrases.settings import Adjunct
from lookleft.data.phrases.tenses import (
    DUTY,
    PERFECTIVE,
    Tense,
    english_verb,
    hindi_verb,
    negated,
)

Mood = Literal["statement", "negative", "question"]


class Sentence(NamedTuple):
    """One sentence in both languages, not yet capitalised, and the mark that ends it."""

    english: str
    hindi: str
    mark: str = "."


class Object(NamedTuple):
    """What a verb acts on, ready for both languages; `agreement` only if the verb may copy it."""

    english: str
    hindi: str
    agreement: Agreement | None


NO_OBJECT = Object("", "", None)
NOTHING = Adjunct()


def joined(*parts: str) -> str:
    """The parts that are not empty, with a space between."""
    return " ".join(part for part in parts if part)


def govern(verb: Verb, phrase: Phrase) -> Object:
    """The object in the case its verb asks for: bare, or with को, से, का, पर."""
    english = phrase.as_object
    if verb.frame == "direct" or verb.frame == "gift":
        if phrase.needs_ko:
            return Object(english, phrase.with_postposition("को"), None)
        return Object(english, phrase.hindi, phrase.agreement)
    if verb.frame == "का":
        return Object(english, phrase.genitive(verb.host_gender or "m", False), None)
    return Object(english, phrase.with_postposition(verb.frame), None)


def subject_case(verb: Verb, tense: Tense, subject: Phrase) -> str:
    """The Hindi subject: ने in a transitive perfective, को for duties, else bare."""
    if tense in DUTY:
        return subject.with_postposition("को")
    if tense in PERFECTIVE and verb.is_ergative:
        return subject.with_postposition("ने")
    return subject.hindi


def verb_agreement(verb: Verb, tense: Tense, subject: Phrase, thing: Object) -> Agreement:
    """Whom the verb copies: a bare subject; else a bare object; else its host noun; else none."""
    is_marked = tense in DUTY or (tense in PERFECTIVE and verb.is_ergative)
    if not is_marked:
        return subject.agreement
    if thing.agreement is not None:
        return thing.agreement
    if verb.host_gender is not None:
        return Agreement(3, verb.host_gender, False)
    return DEFAULT_AGREEMENT


def clause(
    subject: Phrase,
    verb: Verb,
    tense: Tense,
    mood: Mood = "statement",
    *,
    thing: Object = NO_OBJECT,
    adjunct: Adjunct = NOTHING,
    time: Adjunct = NOTHING,
    asks: Adjunct = NOTHING,
) -> Sentence:
    """A whole clause. `asks` is a question word ("where", कहाँ); without one, क्या asks yes or no.

    English: subject, verb, object, adjunct, time. Hindi: subject, time, adjunct, object, verb.
    """
    auxiliary, rest, whole = english_verb(verb, tense, subject.number)
    if mood == "question":
        english = joined(asks.english, auxiliary, subject.english, rest)
    elif mood == "negative":
        english = joined(subject.english, negated(auxiliary), rest)
    else:
        english = joined(subject.english, whole)
    agreement = verb_agreement(verb, tense, subject, thing)
    hindi = joined(
        "क्या" if mood == "question" and not asks.english else "",
        subject_case(verb, tense, subject),
        time.hindi,
        adjunct.hindi,
        thing.hindi,
        hindi_verb(verb, tense, agreement, is_negative=mood == "negative", asking=asks.hindi),
    )
    english = joined(english, thing.english, adjunct.english, time.english)
    return Sentence(english, hindi, "?" if mood == "question" else ".")
