"""What everybody says every day: fixed phrases, greetings by name, and how somebody is."""

from __future__ import annotations

from functools import cache
from importlib import resources
from random import Random

from lookleft.data.phrases.actions import ADDRESSED, Draw
from lookleft.data.phrases.choices import one_of
from lookleft.data.phrases.clauses import Sentence
from lookleft.data.phrases.morphology import inflect
from lookleft.data.phrases.nominal import NAMES
from lookleft.data.phrases.settings import Adjunct
from lookleft.data.phrases.states import When, draw_someone, state

FIXED = "greeting/fixed"


@cache
def fixed_sentences() -> tuple[Sentence, ...]:
    """The phrases of greetings.tsv, with "." or "?" as their mark."""
    text = resources.files(__package__).joinpath("greetings.tsv").read_text(encoding="utf-8")
    found = []
    for line in text.splitlines():
        english, hindi = line.split("\t")
        mark = "?" if english.endswith("?") else "."
        found.append(Sentence(english.removesuffix("?"), hindi.removesuffix("?"), mark))
    return tuple(found)


SALUTES = (
    Adjunct("hello", "नमस्ते"),
    Adjunct("good morning", "सुप्रभात"),
    Adjunct("good evening", "शुभ संध्या"),
    Adjunct("good night", "शुभ रात्रि"),
    Adjunct("thank you", "धन्यवाद"),
    Adjunct("welcome", "स्वागत है"),
    Adjunct("goodbye", "अलविदा"),
)


def draw_salute(rng: Random) -> Sentence:
    """Good morning, Sita."""
    salute, (name, _) = one_of(rng, SALUTES), one_of(rng, ADDRESSED)
    return Sentence(f"{salute.english}, {name.english}", f"{salute.hindi}, {name.hindi}")


def draw_how(rng: Random) -> Sentence | None:
    """How is your brother? How were they? How are you, sister?"""
    when: When = "now" if rng.random() < 0.75 else "past"
    spoken_to, subject = one_of(rng, ADDRESSED)
    is_addressed = rng.random() < 0.25
    if not is_addressed:
        subject = draw_someone(rng)
        if not subject.is_definite or subject.agreement.person == 1:
            return None
    to = subject.agreement
    how = Adjunct("how", inflect("कैसा", to.gender, to.is_plural))
    asked = state(subject, "", "", when, "question", asks=how)
    if not is_addressed:
        return asked
    english, hindi, mark = asked
    return Sentence(f"{english}, {spoken_to.english}", f"{hindi}, {spoken_to.hindi}", mark)


def draw_introduction(rng: Random) -> Sentence:
    """Hello, my name is Neha."""
    salute, name = one_of(rng, SALUTES[:3]), one_of(rng, NAMES)
    return Sentence(
        f"{salute.english}, my name is {name.english}", f"{salute.hindi}, मेरा नाम {name.hindi} है"
    )


def patterns() -> list[tuple[str, int, Draw]]:
    """(name, share of the corpus, how to draw one) for every pattern of this file."""
    return [
        ("greeting/salute", 1, draw_salute),
        ("greeting/how", 2, draw_how),
        ("greeting/introduction", 1, draw_introduction),
    ]
