"""Questions with a question word: where, when, why, how, what, who, whom, which, how many."""

from __future__ import annotations

from functools import partial
from random import Random

from lookleft.data.phrases.actions import (
    DATED,
    HAPPEN_SOMEWHERE,
    PLAIN,
    WHEN,
    WHERE,
    WHY,
    Draw,
    draw_thing,
)
from lookleft.data.phrases.choices import (
    BARE_KINDS,
    draw_adjunct,
    draw_goal,
    draw_subject,
    draw_time,
    one_of,
    suits,
)
from lookleft.data.phrases.clauses import (
    NO_OBJECT,
    NOTHING,
    Object,
    Sentence,
    clause,
    govern,
    joined,
    subject_case,
    verb_agreement,
)
from lookleft.data.phrases.lexicon import Noun, nouns_of, verbs
from lookleft.data.phrases.morphology import DEFAULT_AGREEMENT, Agreement, inflect
from lookleft.data.phrases.nominal import HE, SHE, THEY, YOU, I, Phrase
from lookleft.data.phrases.settings import Adjunct
from lookleft.data.phrases.tenses import Tense, english_verb, hindi_verb

WHO = Phrase(
    "who", "कौन", "किस", DEFAULT_AGREEMENT, "one", "person",
    joined=("किसने", "किसे", "किससे"), genitive_stem="किसक",
)  # fmt: skip
HOW, WHAT = Adjunct("how", "कैसे"), Adjunct("what", "क्या")
ASKED = (YOU, YOU, HE, SHE, THEY)
HOW_VERBS = ("make", "cook", "learn", "repair", "open", "close", "clean", "break", "catch", "drive")


def draw_asking(rng: Random, asks: Adjunct, tenses: tuple[Tense, ...]) -> Sentence | None:
    """A question with where, when, why, how, or what."""
    verb, tense = one_of(rng, verbs()), one_of(rng, tenses)
    if not suits(verb, tense):
        return None
    if asks is WHERE and not HAPPEN_SOMEWHERE & set(verb.adjuncts):
        return None
    if asks is HOW and not ("means" in verb.adjuncts or verb.english in HOW_VERBS):
        return None
    if asks is WHAT and (verb.frame != "direct" or verb.objects & {"person", "animal"}):
        return None
    subject = one_of(rng, ASKED) if rng.random() < 0.55 else draw_subject(rng, verb, is_known=True)
    if subject.agreement.person == 1:
        return None  # one seldom asks what one is doing oneself
    thing, adjunct, time = NO_OBJECT, NOTHING, NOTHING
    if asks is not WHAT:
        thing = draw_thing(rng, verb, subject, article="a?")
    if asks in (WHEN, WHY, HOW) and "needs-adjunct" in verb.tags:
        adjunct = draw_adjunct(rng, verb, subject)
    elif asks in (WHEN, WHY) and verb.frame == "none" and "goal" in verb.adjuncts:
        adjunct = draw_goal(rng)
    if asks is not WHEN and rng.random() < 0.3:
        time = draw_time(rng, tense, verb)
    return clause(
        subject, verb, tense, "question", thing=thing, adjunct=adjunct, time=time, asks=asks
    )


def draw_who(rng: Random) -> Sentence | None:
    """Who as the subject: कौन and किसने stand right before the verb."""
    verb, tense = one_of(rng, verbs()), one_of(rng, PLAIN)
    if not suits(verb, tense) or verb.english == "live":
        return None
    # "her" or "his" would point nowhere here: the object has no owner but a person named.
    thing = draw_thing(rng, verb, I, article="a?")
    if " my " in f" {thing.english}":
        return None
    adjunct = draw_adjunct(rng, verb, I) if verb.frame == "none" else NOTHING
    if " my " in f" {adjunct.english} ":
        return None
    time = draw_time(rng, tense, verb) if rng.random() < 0.3 else NOTHING
    agreement = verb_agreement(verb, tense, WHO, thing)
    whole = english_verb(verb, tense, "one")[2]
    return Sentence(
        joined("who", whole, thing.english, adjunct.english, time.english),
        joined(
            time.hindi,
            adjunct.hindi,
            thing.hindi,
            hindi_verb(verb, tense, agreement, asking=subject_case(verb, tense, WHO)),
        ),
        "?",
    )


def draw_whom(rng: Random) -> Sentence | None:
    """Who as the object: किसे, किससे, किसका."""
    verb, tense = one_of(rng, verbs()), one_of(rng, PLAIN)
    if "person" not in verb.objects or not suits(verb, tense):
        return None
    subject = draw_subject(rng, verb, is_known=True)
    if subject.agreement.person == 1:
        return None
    whom = govern(verb, WHO)._replace(english="")  # English says it first, Hindi in its place
    time = draw_time(rng, tense, verb) if rng.random() < 0.5 else NOTHING
    return clause(
        subject, verb, tense, "question", thing=whom, time=time, asks=Adjunct(WHO.english)
    )


def draw_which(rng: Random) -> Sentence | None:
    """Which book, how many books, how much water, agreeing with the noun."""
    verb, tense = one_of(rng, verbs()), one_of(rng, PLAIN)
    if verb.frame != "direct" or not suits(verb, tense):
        return None
    noun = one_of(rng, nouns_of(verb.objects))
    asked = _which(rng, noun)
    if asked is None:
        return None
    subject = one_of(rng, ASKED) if rng.random() < 0.5 else draw_subject(rng, verb, is_known=True)
    if subject.agreement.person == 1:
        return None
    time = draw_time(rng, tense, verb) if rng.random() < 0.4 else NOTHING
    # The noun moves to the front in English and stays before the verb in Hindi.
    agreement = verb_agreement(verb, tense, subject, asked)
    auxiliary, rest, _ = english_verb(verb, tense, subject.number)
    return Sentence(
        joined(asked.english, auxiliary, subject.english, rest, time.english),
        joined(
            subject_case(verb, tense, subject),
            time.hindi,
            asked.hindi,
            hindi_verb(verb, tense, agreement),
        ),
        "?",
    )


def _which(rng: Random, noun: Noun) -> Object | None:
    if noun.kind in ("person", "animal", "place", "nature", "music", *BARE_KINDS):
        return None
    gender = noun.gender
    if noun.plural is not None and rng.random() < 0.5:
        many = inflect("कितना", gender, True)
        agreement = Agreement(3, gender, True)
        return Object(f"how many {noun.plural}", f"{many} {noun.forms.direct_plural}", agreement)
    agreement = Agreement(3, gender, False)
    if noun.kind in ("food", "drink") and noun.plural is None:
        much = inflect("कितना", gender, False)
        return Object(f"how much {noun.english}", f"{much} {noun.forms.direct}", agreement)
    which = inflect("कौन सा", gender, False)
    return Object(f"which {noun.english}", f"{which} {noun.forms.direct}", agreement)


def patterns() -> list[tuple[str, int, Draw]]:
    """(name, share of the corpus, how to draw one) for every pattern of this file."""
    found: list[tuple[str, int, Draw]] = []
    for asks, tenses in ((WHERE, PLAIN), (WHEN, DATED), (WHY, PLAIN), (HOW, DATED), (WHAT, PLAIN)):
        draw = partial(draw_asking, asks=asks, tenses=tenses)
        found.append((f"question/{asks.english}", 3, draw))
    found += [
        ("question/who", 4, draw_who),
        ("question/whom", 3, draw_whom),
        ("question/which", 4, draw_which),
    ]
    return found
