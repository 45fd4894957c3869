"""Sentences about doing: every tense, questions, commands, giving, and people addressed."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from random import Random

from lookleft.data.phrases.choices import (
    draw_adjunct,
    draw_noun,
    draw_object,
    draw_person,
    draw_subject,
    draw_time,
    one_of,
    suits,
)
from lookleft.data.phrases.clauses import (
    NO_OBJECT,
    NOTHING,
    Mood,
    Object,
    Sentence,
    clause,
    govern,
    joined,
)
from lookleft.data.phrases.lexicon import Verb, nouns_of, verbs
from lookleft.data.phrases.morphology import command
from lookleft.data.phrases.nominal import (
    HE,
    NAMES,
    PRONOUNS,
    SHE,
    YOU,
    YOU_FRIEND,
    YOU_FRIEND_WOMAN,
    YOU_WOMAN,
    I,
    Phrase,
)
from lookleft.data.phrases.settings import Adjunct
from lookleft.data.phrases.tenses import DUTY, TENSES, Tense, english_verb, hindi_verb

Draw = Callable[[Random], Sentence | None]  # None: these dice fell badly, throw again

WHERE, WHEN, WHY = Adjunct("where", "कहाँ"), Adjunct("when", "कब"), Adjunct("why", "क्यों")
PLAIN: tuple[Tense, ...] = ("habitual", "progressive", "past", "future", "past-progressive")
DATED: tuple[Tense, ...] = ("habitual", "past", "future")
HAPPEN_SOMEWHERE = frozenset({"goal", "reach", "city", "home", "open", "town", "work", "study"})
ASKED_TENSES = tuple(tense for tense in TENSES if tense != "used-to")
MAY_I: tuple[Tense, ...] = ("can", "should", "have-to")  # what one asks about oneself

ADDRESSED = (
    (Adjunct("brother", "भाई"), YOU_FRIEND),
    (Adjunct("sister", "बहन"), YOU_FRIEND_WOMAN),
    (Adjunct("my friend", "मेरे दोस्त"), YOU_FRIEND),
    (Adjunct("my son", "बेटा"), YOU_FRIEND),
    (Adjunct("my daughter", "बेटी"), YOU_FRIEND_WOMAN),
    (Adjunct("sir", "सर"), YOU),
    (Adjunct("madam", "मैडम"), YOU_WOMAN),
    *(
        (
            Adjunct(name.english, name.hindi),
            YOU_FRIEND if name.agreement.gender == "m" else YOU_FRIEND_WOMAN,
        )
        for name in NAMES
    ),
)


def draw_thing(rng: Random, verb: Verb, subject: Phrase, *, article: str = "a") -> Object:
    """The verb's object in its case, or nothing for a verb without one."""
    if verb.frame == "none":
        return NO_OBJECT
    given = govern(verb, draw_object(rng, verb, subject, article=article))
    if verb.frame != "gift":
        return given
    receiver = draw_receiver(rng, subject)
    return Object(
        f"{receiver.as_object} {given.english}",
        f"{receiver.with_postposition('को')} {given.hindi}",
        given.agreement,
    )


def draw_receiver(rng: Random, subject: Phrase) -> Phrase:
    """Somebody other than the subject."""
    people = [
        person
        for person in (*PRONOUNS, *NAMES)
        if person.english not in subject.english and person.possessive != subject.possessive
    ]
    if rng.random() < 0.6:
        return one_of(rng, people)
    kin = nouns_of(frozenset({"kin"}))
    return draw_noun(rng, one_of(rng, kin), subject=subject, adjective_chance=0.0)


def draw_clause(
    rng: Random,
    tense: Tense,
    mood: Mood = "statement",
    subject: Phrase | None = None,
    *,
    is_short: bool = False,
) -> Sentence | None:
    """A clause in one tense; a short one carries neither place nor time."""
    verb = one_of(rng, verbs())
    if not suits(verb, tense):
        return None
    subject = subject or draw_subject(rng, verb, is_known=mood != "statement")
    if mood == "question" and subject.agreement.person == 1 and tense not in MAY_I:
        return None
    if subject.kind == "animal" and (tense in DUTY or tense == "want"):
        return None
    is_bare_habit = tense == "habitual" and mood == "statement" and subject.number != "one"
    if is_bare_habit and verb.english == verb.past:
        return None  # "I read the book" is about the past
    thing = draw_thing(rng, verb, subject, article="a" if mood == "statement" else "a?")
    if tense in DUTY and subject.joined is None and "को" in thing.hindi.split():
        return None  # one को for the duty and one for the object: right, but clumsy
    adjunct = time = NOTHING
    if not is_short:
        wants_adjunct = 0.75 if verb.frame == "none" else 0.2
        if rng.random() < wants_adjunct or "needs-adjunct" in verb.tags:
            adjunct = draw_adjunct(rng, verb, subject)
        if rng.random() < 0.35:
            time = draw_time(rng, tense, verb)
    elif "needs-adjunct" in verb.tags:
        return None
    return clause(subject, verb, tense, mood, thing=thing, adjunct=adjunct, time=time)


FREQUENCIES = (
    Adjunct("always", "हमेशा"),
    Adjunct("often", "अक्सर"),
    Adjunct("sometimes", "कभी-कभी"),
    Adjunct("never", "कभी"),  # with नहीं before the verb
)


def draw_frequency(rng: Random) -> Sentence | None:
    """A habit with always, often, sometimes or never."""
    verb = one_of(rng, verbs())
    if not suits(verb, "progressive") or verb.english == "arrive":
        return None
    subject = draw_subject(rng, verb)
    how_often = one_of(rng, FREQUENCIES)
    is_never = how_often.english == "never"
    thing = draw_thing(rng, verb, subject, article="a?" if is_never else "a")
    adjunct = draw_adjunct(rng, verb, subject) if verb.frame == "none" else NOTHING
    whole = english_verb(verb, "habitual", subject.number)[2]
    hindi = hindi_verb(verb, "habitual", subject.agreement, is_negative=is_never)
    return Sentence(
        joined(subject.english, how_often.english, whole, thing.english, adjunct.english),
        joined(subject.hindi, how_often.hindi, adjunct.hindi, thing.hindi, hindi),
    )


def draw_command(rng: Random, *, is_negative: bool, is_addressed: bool) -> Sentence | None:
    """An order: खोलिए to आप, खोलो to somebody addressed as तुम; "not" is मत."""
    verb = one_of(rng, verbs())
    if verb.tags & {"stative", "sudden"} or verb.english in ("live", "arrive", "miss"):
        return None
    if verb.english in ("fight with", "break", "cry") and not is_negative:
        return None
    spoken_to, listener = one_of(rng, ADDRESSED) if is_addressed else (NOTHING, YOU)
    thing = draw_thing(rng, verb, listener, article="a?" if is_negative else "a")
    adjunct = draw_adjunct(rng, verb, listener) if verb.frame == "none" else NOTHING
    is_polite = listener.agreement.person == 3
    please = is_polite and rng.random() < 0.5
    english = joined(
        "please" if please else "",
        "do not" if is_negative else "",
        verb.english,
        thing.english,
        adjunct.english,
    )
    hindi = joined(
        "कृपया" if please else "",
        adjunct.hindi,
        thing.hindi,
        verb.host,
        "मत" if is_negative else "",
        command(verb.stem, is_polite=is_polite),
    )
    order = Sentence(english, hindi)
    return _address(order, spoken_to) if is_addressed else order


def _address(sentence: Sentence, spoken_to: Adjunct) -> Sentence:
    english, hindi, mark = sentence
    return Sentence(f"{english}, {spoken_to.english}", f"{hindi}, {spoken_to.hindi}", mark)


def draw_addressed(rng: Random) -> Sentence | None:
    """A sentence to a brother, a sister, a friend by name (तुम), or to sir and madam (आप)."""
    spoken_to, listener = one_of(rng, ADDRESSED)
    tense = one_of(rng, ASKED_TENSES)
    dice = rng.random()
    if dice < 0.45:
        sentence = draw_clause(rng, tense, "question", listener)
    elif dice < 0.6:
        sentence = draw_clause(rng, tense, "negative", listener)
    elif dice < 0.8:
        sentence = _ask_listener(rng, listener)
    else:
        sentence = _do_to_listener(rng, listener)
    return _address(sentence, spoken_to) if sentence else None


def _ask_listener(rng: Random, listener: Phrase) -> Sentence | None:
    verb, tense = one_of(rng, verbs()), one_of(rng, PLAIN)
    asks = one_of(rng, (WHY, WHEN, WHERE))
    if not suits(verb, tense) or "needs-adjunct" in verb.tags:
        return None
    if asks is WHERE and not HAPPEN_SOMEWHERE & set(verb.adjuncts):
        return None
    if asks is WHEN and tense not in DATED:
        return None
    thing = draw_thing(rng, verb, listener, article="a?")
    return clause(listener, verb, tense, "question", thing=thing, asks=asks)


def _do_to_listener(rng: Random, listener: Phrase) -> Sentence | None:
    verb, tense = one_of(rng, verbs()), one_of(rng, PLAIN)
    if "person" not in verb.objects or not suits(verb, tense):
        return None
    subject = one_of(rng, (I, HE, SHE)) if rng.random() < 0.6 else draw_person(rng)
    if subject.possessive == "your" or "your" in subject.english:
        return None
    mood: Mood = "negative" if rng.random() < 0.3 else "statement"
    return clause(subject, verb, tense, mood, thing=govern(verb, listener))


def patterns() -> list[tuple[str, int, Draw]]:
    """(name, share of the corpus, how to draw one) for every pattern of this file."""
    found: list[tuple[str, int, Draw]] = []
    for tense in TENSES:
        common = 2 if tense in ("habitual", "progressive", "past", "future") else 1
        found.append((f"statement/{tense}", 6 * common, partial(draw_clause, tense=tense)))
        if tense == "used-to":  # "did not use to" is not everyday English
            continue
        moods: tuple[Mood, Mood] = ("negative", "question")
        for mood in moods:
            draw = partial(draw_clause, tense=tense, mood=mood)
            found.append((f"{mood}/{tense}", 3 * common, draw))
    found += [
        ("frequency", 4, draw_frequency),
        ("command/polite", 4, partial(draw_command, is_negative=False, is_addressed=False)),
        ("command/not", 3, partial(draw_command, is_negative=True, is_addressed=False)),
        ("command/addressed", 3, partial(draw_command, is_negative=False, is_addressed=True)),
        ("addressed", 10, draw_addressed),
    ]
    return found
