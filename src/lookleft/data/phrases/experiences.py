"""Sentences where Hindi turns English round: having, wanting, liking, feeling, knowing."""

from __future__ import annotations

from random import Random

from lookleft.data.phrases.actions import Draw, draw_thing
from lookleft.data.phrases.choices import draw_adjective, draw_noun, one_of
from lookleft.data.phrases.clauses import Mood, Sentence, joined
from lookleft.data.phrases.lexicon import nouns_of, verbs
from lookleft.data.phrases.morphology import Agreement, imperfective, infinitive, inflect, is_now
from lookleft.data.phrases.nominal import NUMBERS, Phrase, noun_phrase
from lookleft.data.phrases.states import (
    LIKED,
    OWNED,
    RELATIVES,
    draw_mood,
    draw_someone,
    verb_to_be,
)
from lookleft.data.phrases.tenses import BE_NOW, BE_PAST

WANTED = nouns_of(frozenset({"food", "drink", "goods", "lost"}))
LANGUAGES = nouns_of(frozenset({"language"}))
COUNTS = tuple(list(NUMBERS)[:4])


def _turned(mood: Mood, hindi: tuple[str, str], verb: str) -> str:
    """The owner or experiencer, the thing, and a verb that agrees with the thing."""
    first, thing = hindi
    if mood == "question":
        return joined("क्या", first, thing, verb)
    return joined(first, thing, "नहीं" if mood == "negative" else "", verb)


def _transitive(subject: Phrase, base: str, third: str, mood: Mood, rest: str) -> str:
    is_one = subject.number == "one"
    do = "does" if is_one else "do"
    if mood == "question":
        return joined(do, subject.english, base, rest)
    if mood == "negative":
        return joined(subject.english, do, "not", base, rest)
    return joined(subject.english, third if is_one else base, rest)


def _mark(mood: Mood) -> str:
    return "?" if mood == "question" else "."


def draw_having(rng: Random) -> Sentence:
    """I have a book: मेरे पास, "near me"."""
    subject, noun = draw_someone(rng), one_of(rng, OWNED)
    mood = draw_mood(rng, subject)
    if mood == "statement" and rng.random() < 0.5:
        thing = noun_phrase(noun, one_of(rng, tuple(NUMBERS)), is_plural=True)
    else:
        article = "a" if mood == "statement" else "a?"
        thing = noun_phrase(noun, article, adjective=draw_adjective(rng, noun, 0.25))
    owner = subject.beside("पास")
    if mood == "statement" and rng.random() < 0.3:
        hindi = _turned(mood, (owner, thing.hindi), verb_to_be(thing.agreement, "past"))
        return Sentence(f"{subject.english} had {thing.english}", hindi)
    hindi = _turned(mood, (owner, thing.hindi), is_now(thing.agreement))
    return Sentence(_transitive(subject, "have", "has", mood, thing.english), hindi, _mark(mood))


def draw_family(rng: Random) -> Sentence:
    """I have two brothers: मेरे दो भाई, for one does not keep relatives "near"."""
    subject, noun = draw_someone(rng), one_of(rng, RELATIVES)
    mood = draw_mood(rng, subject)
    is_plural = mood == "statement" and rng.random() < 0.6
    asks_how_many = mood == "question" and rng.random() < 0.5
    if asks_how_many:
        owner = subject.genitive(noun.gender, True)
        many = inflect("कितना", noun.gender, True)
        do = "does" if subject.number == "one" else "do"
        english = f"how many {noun.plural} {do} {subject.english} have"
        return Sentence(english, f"{owner} {many} {noun.forms.direct_plural} हैं", "?")
    phrase = noun_phrase(noun, one_of(rng, COUNTS) if is_plural else "a", is_plural=is_plural)
    owner = subject.genitive(noun.gender, is_plural)
    hindi = phrase.hindi if mood == "statement" else f"कोई {noun.forms.direct}"
    return Sentence(
        _transitive(subject, "have", "has", mood, phrase.english),
        _turned(mood, (owner, hindi), is_now(phrase.agreement)),
        _mark(mood),
    )


def draw_wanting(rng: Random) -> Sentence | None:
    """I want tea: मुझे चाय चाहिए; I need a pen: मुझे कलम की ज़रूरत है."""
    subject = draw_someone(rng)
    mood = draw_mood(rng, subject)
    thing = draw_noun(
        rng, one_of(rng, WANTED), subject=subject, article="a" if mood == "statement" else "a?"
    )
    if thing.kind in ("person", "animal"):
        return None
    wanter = subject.with_postposition("को")
    if rng.random() < 0.6:
        english = _transitive(subject, "want", "wants", mood, thing.english)
        return Sentence(english, _turned(mood, (wanter, thing.hindi), "चाहिए"), _mark(mood))
    need = f"{thing.genitive('f', False)} ज़रूरत"
    english = _transitive(subject, "need", "needs", mood, thing.english)
    return Sentence(english, _turned(mood, (wanter, need), "है"), _mark(mood))


def draw_liking(rng: Random) -> Sentence | None:
    """I like mangoes: मुझे आम पसंद हैं; to love a thing is to like it much."""
    subject, noun = draw_someone(rng), one_of(rng, LIKED)
    mood = draw_mood(rng, subject)
    if noun.is_countable and noun.kind in ("food", "clothes") and rng.random() < 0.5:
        thing = noun_phrase(noun, "", is_plural=True)
    elif noun.is_countable:
        thing = draw_noun(rng, noun, subject=subject, article="", adjective_chance=0.2)
    else:
        thing = noun_phrase(noun, "the" if noun.kind == "place" else "")
    if any(thing.english.startswith(f"{count} ") for count in NUMBERS):
        return None
    loves = mood != "negative" and rng.random() < 0.35
    base, third = ("love", "loves") if loves else ("like", "likes")
    hindi = joined(thing.hindi, "बहुत" if loves else "", "पसंद")
    return Sentence(
        _transitive(subject, base, third, mood, thing.english),
        _turned(mood, (subject.with_postposition("को"), hindi), is_now(thing.agreement)),
        _mark(mood),
    )


def draw_liking_to_do(rng: Random) -> Sentence | None:
    """I like to read books: मुझे किताबें पढ़ना पसंद है."""
    verb = one_of(rng, verbs())
    refused = {"fall", "live", "arrive", "come", "return", "wait", "cry"}
    if "stative" in verb.tags or verb.english in refused or verb.frame == "gift":
        return None
    subject = draw_someone(rng)
    mood = draw_mood(rng, subject)
    thing = draw_thing(rng, verb, subject, article="")
    doing = joined(thing.hindi, verb.host, infinitive(verb.stem), "पसंद")
    return Sentence(
        _transitive(subject, "like", "likes", mood, joined("to", verb.english, thing.english)),
        _turned(mood, (subject.with_postposition("को"), doing), "है"),
        _mark(mood),
    )


FEELINGS = (  # English, the noun, the verb now, the verb then
    ("hungry", "भूख", "लगी है", "लगी थी"),
    ("thirsty", "प्यास", "लगी है", "लगी थी"),
    ("sleepy", "नींद", "आ रही है", "आ रही थी"),
    ("cold", "ठंड", "लग रही है", "लग रही थी"),
    ("hot", "गर्मी", "लग रही है", "लग रही थी"),
    ("afraid", "डर", "लग रहा है", "लग रहा था"),
)
ILLNESSES = (
    ("a fever", "बुखार", "है", "था"),
    ("a cold", "ज़ुकाम", "है", "था"),
    ("a cough", "खाँसी", "है", "थी"),
)


def draw_feeling(rng: Random) -> Sentence:
    """I am hungry: मुझे भूख लगी है; she has a fever: उसे बुखार है."""
    subject = draw_someone(rng)
    mood = draw_mood(rng, subject)
    feeler, was_then = subject.with_postposition("को"), rng.random() < 0.35
    if rng.random() < 0.3:
        english, noun, now, then = one_of(rng, ILLNESSES)
        if was_then and mood == "statement":
            return Sentence(f"{subject.english} had {english}", f"{feeler} {noun} {then}")
        said = _transitive(subject, "have", "has", mood, english)
        return Sentence(said, _turned(mood, (feeler, noun), now), _mark(mood))
    english, noun, now, then = one_of(rng, FEELINGS)
    be = (BE_PAST if was_then else BE_NOW)[subject.number]
    hindi = _turned(mood, (feeler, noun), then if was_then else now)
    if mood == "question":
        return Sentence(f"{be} {subject.english} {english}", hindi, "?")
    not_ = "not" if mood == "negative" else ""
    return Sentence(joined(subject.english, be, not_, english), hindi)


def draw_language(rng: Random) -> Sentence:
    """I know Hindi: मुझे हिंदी आती है."""
    subject, noun = draw_someone(rng), one_of(rng, LANGUAGES)
    mood = draw_mood(rng, subject)
    to = Agreement(3, "f", False)
    verb = imperfective("आ", to, has_auxiliary=mood != "negative")
    verb = verb if mood == "negative" else f"{verb} है"
    hindi = _turned(mood, (subject.with_postposition("को"), noun.forms.direct), verb)
    return Sentence(_transitive(subject, "know", "knows", mood, noun.english), hindi, _mark(mood))


def patterns() -> list[tuple[str, int, Draw]]:
    """(name, share of the corpus, how to draw one) for every pattern of this file."""
    return [
        ("having/thing", 8, draw_having),
        ("having/family", 4, draw_family),
        ("wanting", 8, draw_wanting),
        ("liking/thing", 8, draw_liking),
        ("liking/doing", 6, draw_liking_to_do),
        ("feeling", 5, draw_feeling),
        ("language", 3, draw_language),
    ]
