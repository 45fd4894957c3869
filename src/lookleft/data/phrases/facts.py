"""Sentences about everyday facts: weather, the clock, prices, names, whose it is."""

from __future__ import annotations

from random import Random

from lookleft.data.phrases.actions import Draw
from lookleft.data.phrases.choices import draw_owner, one_of
from lookleft.data.phrases.clauses import Sentence, joined
from lookleft.data.phrases.lexicon import nouns_of
from lookleft.data.phrases.morphology import inflect, is_now
from lookleft.data.phrases.nominal import NAMES, NUMBERS, noun_phrase
from lookleft.data.phrases.settings import CITIES, DAYS, Adjunct
from lookleft.data.phrases.states import (
    OWNED,
)
from lookleft.data.phrases.tenses import BE_NOW

WEATHER = (  # the end of the English sentence, the Hindi, and the days it can be said of
    ("it is hot", "गर्मी है", "now"),
    ("it is cold", "ठंड है", "now"),
    ("it is very hot", "बहुत गर्मी है", "now"),
    ("it is very cold", "बहुत ठंड है", "now"),
    ("it is raining", "बारिश हो रही है", "now"),
    ("it is not raining", "बारिश नहीं हो रही है", "now"),
    ("it is snowing", "बर्फ़ गिर रही है", "now"),
    ("the weather is good", "मौसम अच्छा है", "now"),
    ("the weather is bad", "मौसम खराब है", "now"),
    ("the sky is clear", "आसमान साफ़ है", "now"),
    ("it was hot", "गर्मी थी", "past"),
    ("it was cold", "ठंड थी", "past"),
    ("it was very hot", "बहुत गर्मी थी", "past"),
    ("it was very cold", "बहुत ठंड थी", "past"),
    ("it rained", "बारिश हुई", "past"),
    ("it did not rain", "बारिश नहीं हुई", "past"),
    ("it was raining", "बारिश हो रही थी", "past"),
    ("it snowed", "बर्फ़ गिरी", "past"),
    ("the weather was good", "मौसम अच्छा था", "past"),
    ("the weather was bad", "मौसम खराब था", "past"),
    ("it will be hot", "गर्मी होगी", "future"),
    ("it will be cold", "ठंड होगी", "future"),
    ("it will rain", "बारिश होगी", "future"),
    ("it will not rain", "बारिश नहीं होगी", "future"),
    ("it will snow", "बर्फ़ गिरेगी", "future"),
    ("the weather will be good", "मौसम अच्छा होगा", "future"),
)
WEATHER_TIMES = {
    "now": (Adjunct("today", "आज"), Adjunct("now", "अभी")),
    "past": (
        Adjunct("yesterday", "कल"),
        Adjunct("last week", "पिछले हफ़्ते"),
        Adjunct("in the morning", "सुबह"),
        Adjunct("last year", "पिछले साल"),
    ),
    "future": (
        Adjunct("tomorrow", "कल"),
        Adjunct("next week", "अगले हफ़्ते"),
        Adjunct("in the evening", "शाम को"),
        Adjunct("at night", "रात को"),
    ),
}


def draw_weather(rng: Random) -> Sentence:
    """It is very cold in Delhi today: time, place, weather."""
    english, hindi, when = one_of(rng, WEATHER)
    city, time = one_of(rng, CITIES), Adjunct()
    if rng.random() < 0.75:
        time = one_of(rng, WEATHER_TIMES[when])
    place = rng.random() < 0.7
    return Sentence(
        joined(english, f"in {city.english}" if place else "", time.english),
        joined(time.hindi, f"{city.hindi} में" if place else "", hindi),
    )


HOURS = (("one", "एक"), *list(NUMBERS.items())[:11])


def draw_clock(rng: Random) -> Sentence:
    """It is half past two: ढाई बजे हैं; one o'clock alone is singular."""
    hour = int(rng.random() * 12)
    english, hindi = HOURS[hour]
    is_one = hour == 0
    dice = rng.random()
    if dice < 0.35:
        said, clock = f"{english} o'clock", hindi
    elif dice < 0.6:
        said = f"half past {english}"
        clock = {0: "डेढ़", 1: "ढाई"}.get(hour, f"साढ़े {hindi}")
    elif dice < 0.8:
        said, clock = f"a quarter past {english}", "सवा" if is_one else f"सवा {hindi}"
    else:
        said, clock = f"a quarter to {english}", "पौन" if is_one else f"पौने {hindi}"
    struck = "बजा है" if is_one else "बजे हैं"
    if rng.random() < 0.3:
        day, day_hindi = one_of(rng, DAYS)
        if rng.random() < 0.5:
            return Sentence(f"today is {day}", f"आज {day_hindi} है")
        return Sentence(f"yesterday was {day}", f"कल {day_hindi} था")
    return Sentence(f"it is {said}", f"{clock} {struck}")


PRICED = nouns_of(frozenset({"goods"}))
PRICES = (
    ("twenty", "बीस"),
    ("fifty", "पचास"),
    ("one hundred", "सौ"),
    ("two hundred", "दो सौ"),
    ("five hundred", "पाँच सौ"),
    ("one thousand", "एक हज़ार"),
    ("ten thousand", "दस हज़ार"),
)


def draw_price(rng: Random) -> Sentence:
    """How much is this shirt? यह कमीज़ कितने की है? The thing agrees with की."""
    noun = one_of(rng, PRICED)
    thing = noun_phrase(
        noun, one_of(rng, ("this", "that")), is_plural=noun.is_countable and rng.random() < 0.25
    )
    to = thing.agreement
    of, verb = inflect("का", to.gender, to.is_plural), is_now(to)
    be = BE_NOW[thing.number]
    if rng.random() < 0.4:
        return Sentence(f"how much {be} {thing.english}", f"{thing.hindi} कितने {of} {verb}", "?")
    english, hindi = one_of(rng, PRICES)
    cost = "costs" if thing.number == "one" else "cost"
    return Sentence(
        f"{thing.english} {cost} {english} rupees", f"{thing.hindi} {hindi} रुपये {of} {verb}"
    )


def draw_whose(rng: Random) -> Sentence:
    """Whose book is this? यह किसकी किताब है?"""
    noun = one_of(rng, OWNED)
    is_plural = rng.random() < 0.3
    thing = noun_phrase(noun, "", is_plural=is_plural)
    whose = inflect("किसका", noun.gender, is_plural)
    near = rng.random() < 0.5
    english = ("these" if is_plural else "this") if near else ("those" if is_plural else "that")
    hindi = ("ये" if is_plural else "यह") if near else ("वे" if is_plural else "वह")
    be = BE_NOW[thing.number]
    verb = is_now(thing.agreement)
    return Sentence(
        f"whose {thing.english} {be} {english}", f"{hindi} {whose} {thing.hindi} {verb}", "?"
    )


def draw_name(rng: Random) -> Sentence:
    """My sister's name is Priya: two obliques before the name."""
    noun = one_of(rng, nouns_of(frozenset({"kin", "own"})))
    person = noun_phrase(noun, owner=draw_owner(rng, noun))
    if rng.random() < 0.4:
        return Sentence(
            f"what is {person.english}'s name", f"{person.genitive('m', False)} नाम क्या है", "?"
        )
    fitting = [name for name in NAMES if name.agreement.gender == noun.gender]
    name = one_of(rng, fitting)
    return Sentence(
        f"{person.english}'s name is {name.english}",
        f"{person.genitive('m', False)} नाम {name.hindi} है",
    )


def patterns() -> list[tuple[str, int, Draw]]:
    """(name, share of the corpus, how to draw one) for every pattern of this file."""
    return [
        ("weather", 5, draw_weather),
        ("clock", 1, draw_clock),
        ("price", 3, draw_price),
        ("whose", 1, draw_whose),
        ("name", 3, draw_name),
    ]
