"""Noun phrases in both languages at once: pronouns, names, nouns with what stands before them."""

from __future__ import annotations

from functools import cache
from types import MappingProxyType
from typing import Literal, NamedTuple

from lookleft.data.phrases.lexicon import Adjective, Noun
from lookleft.data.phrases.morphology import Agreement, Gender, inflect

EnglishNumber = Literal["I", "one", "many"]  # picks am/is/are and -s

JOINED = ("ने", "को", "से")  # the postpositions a pronoun swallows: मैंने, मुझे, मुझसे


class Phrase(NamedTuple):
    """One noun phrase: its English, its Hindi cases, and what agrees with it."""

    english: str
    hindi: str
    oblique: str
    agreement: Agreement
    number: EnglishNumber
    kind: str  # "person", "animal", "food", ...
    is_definite: bool = True
    object_english: str = ""  # "me" beside "I"; empty when it is the same
    possessive: str = ""  # the English word for "my own": "his", "their"
    joined: tuple[str, str, str] | None = None  # a pronoun's forms for JOINED
    genitive_stem: str = ""  # मेर, उसक; empty for nouns: they take का

    @property
    def as_object(self) -> str:
        """The English form after a verb or preposition."""
        return self.object_english or self.english

    @property
    def needs_ko(self) -> bool:
        """As a direct object it takes को: people always, animals when they are known ones."""
        return self.kind == "person" or (self.kind == "animal" and self.is_definite)

    def with_postposition(self, postposition: str) -> str:
        """The oblique form and a simple postposition: लड़के ने, मुझसे."""
        if self.joined and postposition in JOINED:
            return self.joined[JOINED.index(postposition)]
        return f"{self.oblique} {postposition}"

    def genitive(self, gender: Gender, is_plural: bool, is_oblique: bool = False) -> str:
        """मेरा, मेरी, लड़के का, लड़के की, agreeing with the thing possessed."""
        if self.genitive_stem:
            return inflect(self.genitive_stem + "ा", gender, is_plural, is_oblique)
        return f"{self.oblique} {inflect('का', gender, is_plural, is_oblique)}"

    def beside(self, word: str) -> str:
        """A compound postposition after the genitive: मेरे साथ, घर के पीछे."""
        return f"{self.genitive('m', False, True)} {word}"


def _pronoun(
    english: tuple[str, str, str],
    hindi: tuple[str, str, str],
    joined: tuple[str, str, str],
    agreement: Agreement,
    number: EnglishNumber,
) -> Phrase:
    subject, object_english, possessive = english
    direct, oblique, genitive_stem = hindi
    return Phrase(
        english=subject,
        hindi=direct,
        oblique=oblique,
        agreement=agreement,
        number=number,
        kind="person",
        object_english=object_english,
        possessive=possessive,
        joined=joined,
        genitive_stem=genitive_stem,
    )


_I = (("I", "me", "my"), ("मैं", "मुझ", "मेर"), ("मैंने", "मुझे", "मुझसे"))
_YOU = (("you", "you", "your"), ("आप", "आप", "आपक"), ("आपने", "आपको", "आपसे"))
_FRIEND = (("you", "you", "your"), ("तुम", "तुम", "तुम्हार"), ("तुमने", "तुम्हें", "तुमसे"))
_THIRD = (("वह", "उस", "उसक"), ("उसने", "उसे", "उससे"))

# English does not say who speaks: "I" is a man unless a woman is quoted, "you" is आप (a man)
# unless the person addressed is named at the end of the sentence.
I = _pronoun(*_I, Agreement(1, "m", False), "I")  # noqa: E741 - the English word
I_WOMAN = _pronoun(*_I, Agreement(1, "f", False), "I")
YOU = _pronoun(*_YOU, Agreement(3, "m", True), "many")
YOU_WOMAN = _pronoun(*_YOU, Agreement(3, "f", True), "many")
YOU_FRIEND = _pronoun(*_FRIEND, Agreement(2, "m", True), "many")
YOU_FRIEND_WOMAN = _pronoun(*_FRIEND, Agreement(2, "f", True), "many")
HE = _pronoun(("he", "him", "his"), *_THIRD, Agreement(3, "m", False), "one")
SHE = _pronoun(("she", "her", "her"), *_THIRD, Agreement(3, "f", False), "one")
WE = _pronoun(
    ("we", "us", "our"),
    ("हम", "हम", "हमार"),
    ("हमने", "हमें", "हमसे"),
    Agreement(1, "m", True),
    "many",
)
THEY = _pronoun(
    ("they", "them", "their"),
    ("वे", "उन", "उनक"),
    ("उन्होंने", "उन्हें", "उनसे"),
    Agreement(3, "m", True),
    "many",
)
PRONOUNS = (I, YOU, HE, SHE, WE, THEY)
OWN_STEM = "अपना"  # stands for any possessive that points back to the subject


def _name(english: str, hindi: str, gender: Gender) -> Phrase:
    possessive = "his" if gender == "m" else "her"
    agreement = Agreement(3, gender, False)
    return Phrase(english, hindi, hindi, agreement, "one", "person", possessive=possessive)


NAMES = (
    _name("Ravi", "रवि", "m"),
    _name("Amit", "अमित", "m"),
    _name("Rahul", "राहुल", "m"),
    _name("Mohan", "मोहन", "m"),
    _name("Arjun", "अर्जुन", "m"),
    _name("Vijay", "विजय", "m"),
    _name("Sita", "सीता", "f"),
    _name("Meena", "मीना", "f"),
    _name("Priya", "प्रिया", "f"),
    _name("Anita", "अनीता", "f"),
    _name("Radha", "राधा", "f"),
    _name("Neha", "नेहा", "f"),
)

NUMBERS = MappingProxyType(
    {
        "two": "दो",
        "three": "तीन",
        "four": "चार",
        "five": "पाँच",
        "six": "छह",
        "seven": "सात",
        "eight": "आठ",
        "nine": "नौ",
        "ten": "दस",
        "eleven": "ग्यारह",
        "twelve": "बारह",
        "twenty": "बीस",
        "many": "कई",
        "some": "कुछ",
    }
)

# English word -> direct, direct plural, oblique, oblique plural. "a?" is an "a" that Hindi leaves
# out: after "not", in a question, or before the name of a trade.
DETERMINERS = MappingProxyType(
    {
        "": ("", "", "", ""),
        "the": ("", "", "", ""),
        "a": ("एक", "", "एक", ""),
        "a?": ("", "", "", ""),
        "this": ("यह", "ये", "इस", "इन"),
        "that": ("वह", "वे", "उस", "उन"),
    }
)
PLURAL_ENGLISH = MappingProxyType({"this": "these", "that": "those"})


def together(first: Phrase, second: Phrase) -> Phrase:
    """Two people as one subject: feminine only when both are."""
    both_women = first.agreement.gender == second.agreement.gender == "f"
    return Phrase(
        english=f"{first.english} and {second.english}",
        hindi=f"{first.hindi} और {second.hindi}",
        oblique=f"{first.hindi} और {second.oblique}",
        agreement=Agreement(3, "f" if both_women else "m", True),
        number="many",
        kind="person",
        possessive="their",
    )


def with_article(text: str) -> str:
    """ "a mango", "an apple"."""
    return ("an " if text.startswith(("a", "e", "i", "o", "u", "hon")) else "a ") + text


@cache
def noun_phrase(
    noun: Noun,
    determiner: str = "the",
    *,
    is_plural: bool = False,
    adjective: Adjective | None = None,
    owner: Phrase | None = None,
    is_own: bool = False,
) -> Phrase:
    """A noun with an article or number, or with an owner; `is_own`: the owner is the subject."""
    gender, forms = noun.gender, noun.forms
    agrees_plural = is_plural or noun.is_elder
    english = (noun.plural if is_plural else None) or noun.english
    direct = forms.direct_plural if is_plural else forms.direct
    oblique = forms.oblique_plural if is_plural else forms.oblique
    if adjective is not None:
        english = f"{adjective.english} {english}"
        direct = f"{inflect(adjective.hindi, gender, agrees_plural)} {direct}"
        oblique = f"{inflect(adjective.hindi, gender, agrees_plural, True)} {oblique}"
    if owner is not None:
        is_pronoun = is_own or owner.joined is not None
        whose = owner.possessive if is_pronoun else owner.english + "'s"
        english = f"{whose} {english}"
        if is_own:
            before = inflect(OWN_STEM, gender, agrees_plural)
            before_oblique = inflect(OWN_STEM, gender, agrees_plural, True)
        else:
            before = owner.genitive(gender, agrees_plural)
            before_oblique = owner.genitive(gender, agrees_plural, True)
    elif determiner in NUMBERS:
        english = f"{determiner} {english}"
        before = before_oblique = NUMBERS[determiner]
    else:
        if determiner in ("a", "a?"):
            english = with_article(english)
        elif determiner:
            word = PLURAL_ENGLISH.get(determiner, determiner) if is_plural else determiner
            english = f"{word} {english}"
        row = DETERMINERS[determiner]
        before, before_oblique = row[int(is_plural)], row[2 + int(is_plural)]
    return Phrase(
        english=english,
        hindi=f"{before} {direct}".lstrip(),
        oblique=f"{before_oblique} {oblique}".lstrip(),
        agreement=Agreement(3, gender, agrees_plural),
        number="many" if is_plural else "one",
        kind=noun.kind,
        is_definite=owner is not None or determiner in ("the", "this", "that"),
        possessive="their" if is_plural else ("her" if gender == "f" else "his"),
    )
