"""Places and times, said in both languages: by bus, in the river, on Monday, tomorrow."""

from __future__ import annotations

from typing import NamedTuple

from lookleft.data.phrases.nominal import NUMBERS
from lookleft.data.phrases.tenses import Tense


class Adjunct(NamedTuple):
    """A phrase of place, company, means or time; empty when there is none."""

    english: str = ""
    hindi: str = ""


CITIES = (
    Adjunct("Delhi", "दिल्ली"),
    Adjunct("Mumbai", "मुंबई"),
    Adjunct("Jaipur", "जयपुर"),
    Adjunct("Agra", "आगरा"),
    Adjunct("Kolkata", "कोलकाता"),
    Adjunct("Chennai", "चेन्नई"),
    Adjunct("Varanasi", "वाराणसी"),
    Adjunct("India", "भारत"),
)
MEANS = (
    Adjunct("by train", "ट्रेन से"),
    Adjunct("by bus", "बस से"),
    Adjunct("by car", "गाड़ी से"),
    Adjunct("by bicycle", "साइकिल से"),
)
SEATS = (
    Adjunct(),
    Adjunct("on the chair", "कुर्सी पर"),
    Adjunct("on the bed", "पलंग पर"),
    Adjunct("under the tree", "पेड़ के नीचे"),
    Adjunct("near the door", "दरवाज़े के पास"),
)
RIVERS = (
    Adjunct("in the river", "नदी में"),
    Adjunct("in the sea", "समुद्र में"),
    Adjunct("in the lake", "झील में"),
)
DAYS = (
    Adjunct("Monday", "सोमवार"),
    Adjunct("Tuesday", "मंगलवार"),
    Adjunct("Wednesday", "बुधवार"),
    Adjunct("Thursday", "गुरुवार"),
    Adjunct("Friday", "शुक्रवार"),
    Adjunct("Saturday", "शनिवार"),
    Adjunct("Sunday", "रविवार"),
)
ANY_TIME = (
    Adjunct("in the morning", "सुबह"),
    Adjunct("in the evening", "शाम को"),
    Adjunct("at night", "रात को"),
    Adjunct("in the afternoon", "दोपहर को"),
)
CLOCK = tuple(
    Adjunct(f"at {english} o'clock", f"{hindi} बजे")
    for english, hindi in (("one", "एक"), *list(NUMBERS.items())[:11])
)
ON_DAYS = tuple(Adjunct(f"on {day}", f"{hindi} को") for day, hindi in DAYS)
TODAY = Adjunct("today", "आज")
NOW = Adjunct("now", "अभी")
TOMORROW = Adjunct("tomorrow", "कल")  # कल is the nearest day that is not today: the verb tells
YESTERDAY = Adjunct("yesterday", "कल")
PAST_TIMES = (
    YESTERDAY,
    YESTERDAY,
    TODAY,
    Adjunct("last week", "पिछले हफ़्ते"),
    Adjunct("last month", "पिछले महीने"),
    Adjunct("last year", "पिछले साल"),
    Adjunct("yesterday evening", "कल शाम को"),
    *ANY_TIME,
    *ON_DAYS,
)
FUTURE_TIMES = (
    TOMORROW,
    TOMORROW,
    TODAY,
    Adjunct("next week", "अगले हफ़्ते"),
    Adjunct("next month", "अगले महीने"),
    Adjunct("next year", "अगले साल"),
    Adjunct("tomorrow morning", "कल सुबह"),
    Adjunct("after two days", "दो दिन बाद"),
    *ANY_TIME,
    *ON_DAYS,
    *CLOCK,
)
HABIT_TIMES = (
    Adjunct("every day", "रोज़"),
    Adjunct("every day", "रोज़"),
    Adjunct("every week", "हर हफ़्ते"),
    *ANY_TIME,
    *CLOCK,
)
TIMES: dict[Tense, tuple[Adjunct, ...]] = {
    "habitual": HABIT_TIMES,
    "used-to": HABIT_TIMES,
    "progressive": (NOW, TODAY),
    "past-progressive": (YESTERDAY, *ANY_TIME, *ON_DAYS),
    "past": PAST_TIMES,
    "past-perfect": PAST_TIMES,
    "perfect": (TODAY,),
    "future": FUTURE_TIMES,
    "can": (TODAY, TOMORROW, NOW),
    "want": (TODAY, TOMORROW, NOW),
    "have-to": FUTURE_TIMES,
    "should": (TODAY, TOMORROW, NOW, *HABIT_TIMES),
    "had-to": PAST_TIMES,
}
CITY_GOALS = tuple(Adjunct(f"to {city.english}", city.hindi) for city in CITIES)
HOME = Adjunct("home", "घर")
