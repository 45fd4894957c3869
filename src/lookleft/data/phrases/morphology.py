"""Hindi word forms: nouns, adjectives, verbs and the verb "to be", each agreeing as it must."""

from __future__ import annotations

from functools import cache
from typing import Literal, NamedTuple

Gender = Literal["m", "f"]


class Agreement(NamedTuple):
    """What a verb copies from a noun. Person 2 is तुम; आप and respected elders are 3, plural."""

    person: int
    gender: Gender
    is_plural: bool


DEFAULT_AGREEMENT = Agreement(3, "m", False)  # a verb with nothing to agree with


class NounForms(NamedTuple):
    """The four shapes of a noun; the oblique ones stand before a postposition."""

    direct: str
    oblique: str
    direct_plural: str
    oblique_plural: str


VOWEL_ENDINGS = "ािीुूेैोौआइईउऊएओ"


@cache
def noun_forms(word: str, gender: Gender, *, is_fixed: bool = False) -> NounForms:
    """The four forms of a noun; a fixed masculine keeps its -आ (राजा, not राजे)."""
    stem, last = word[:-1], word[-1]
    if gender == "m":
        if last == "ा" and not is_fixed:
            return NounForms(word, stem + "े", stem + "े", stem + "ों")
        return NounForms(word, word, word, _oblique_plural(word))
    if word.endswith("िया"):
        plural = word + "ँ"
    elif last == "ी":
        plural = stem + "ियाँ"
    elif last == "ई":
        plural = stem + "इयाँ"
    elif last in VOWEL_ENDINGS:
        plural = word + "एँ"
    else:
        plural = word + "ें"
    return NounForms(word, word, plural, _oblique_plural(word))


def _oblique_plural(word: str) -> str:
    stem, last = word[:-1], word[-1]
    if word.endswith("िया"):
        return stem + "ों"
    if last == "ी":
        return stem + "ियों"
    if last == "ई":
        return stem + "इयों"
    if last == "ू":
        return stem + "ुओं"
    if last in VOWEL_ENDINGS:
        return word + "ओं"
    return word + "ों"


@cache
def inflect(word: str, gender: Gender, is_plural: bool, is_oblique: bool = False) -> str:
    """An adjective or participle in -आ made to agree; any other adjective as it is."""
    if " " in word:
        return " ".join(inflect(part, gender, is_plural, is_oblique) for part in word.split())
    if gender == "m" and not is_plural and not is_oblique:
        return word
    vowel, sign = ("ई", "ी") if gender == "f" else ("ए", "े")
    if word.endswith("या"):  # नया, नए, नई: the glide falls
        return word[:-2] + vowel
    if word.endswith("आ"):  # हुआ, हुए, हुई
        return word[:-1] + vowel
    return word[:-1] + sign if word.endswith("ा") else word


PERFECTIVES = {  # masculine, masculine plural, feminine, feminine plural
    "जा": ("गया", "गए", "गई", "गईं"),
    "कर": ("किया", "किए", "की", "कीं"),
    "ले": ("लिया", "लिए", "ली", "लीं"),
    "दे": ("दिया", "दिए", "दी", "दीं"),
    "पी": ("पिया", "पिए", "पी", "पीं"),
    "हो": ("हुआ", "हुए", "हुई", "हुईं"),
}
POLITE_COMMANDS = {"कर": "कीजिए", "ले": "लीजिए", "दे": "दीजिए", "पी": "पीजिए"}
FAMILIAR_COMMANDS = {"ले": "लो", "दे": "दो", "पी": "पियो"}
FUTURE_STEMS = {"ले": "ल", "दे": "द", "पी": "पि"}  # लूँगा, दूँगा, पिऊँगा


def _ends_in_vowel(stem: str) -> bool:
    return stem[-1] in VOWEL_ENDINGS


@cache
def perfective(stem: str, agreement: Agreement, *, has_auxiliary: bool = False) -> str:
    """गया, गए, गई, गईं; a following auxiliary takes the feminine plural's nasal away (गई हैं)."""
    if stem in PERFECTIVES:
        forms = PERFECTIVES[stem]
    elif _ends_in_vowel(stem):
        forms = (stem + "या", stem + "ए", stem + "ई", stem + "ईं")
    else:
        forms = (stem + "ा", stem + "े", stem + "ी", stem + "ीं")
    if agreement.gender == "m":
        return forms[1] if agreement.is_plural else forms[0]
    return forms[3] if agreement.is_plural and not has_auxiliary else forms[2]


@cache
def imperfective(stem: str, agreement: Agreement, *, has_auxiliary: bool = True) -> str:
    """जाता, जाते, जाती; without its auxiliary the feminine plural is जातीं."""
    form = inflect(stem + "ता", agreement.gender, agreement.is_plural)
    is_nasal = agreement.gender == "f" and agreement.is_plural and not has_auxiliary
    return form + "ं" if is_nasal else form


@cache
def infinitive(stem: str, agreement: Agreement = DEFAULT_AGREEMENT) -> str:
    """जाना; where duty is expressed it agrees with the object: किताब पढ़नी है."""
    return inflect(stem + "ना", agreement.gender, agreement.is_plural)


@cache
def future(stem: str, agreement: Agreement) -> str:
    """जाऊँगा, जाएगा, जाएँगे, जाओगे and their feminines."""
    ending = "गी" if agreement.gender == "f" else "गे"
    if agreement.gender == "m" and not agreement.is_plural:
        ending = "गा"
    base = FUTURE_STEMS.get(stem, stem)
    if stem == "हो":  # होगा and होंगे drop the vowel; होऊँगा keeps it
        signs = ("ऊँ", "", "ं", "")
    elif _ends_in_vowel(base):
        signs = ("ऊँ", "ए", "एँ", "ओ")
    else:
        signs = ("ूँ", "े", "ें", "ो")
    if agreement.person == 2:
        return base + signs[3] + ending
    if agreement.is_plural:
        return base + signs[2] + ending
    return base + signs[0 if agreement.person == 1 else 1] + ending


@cache
def command(stem: str, *, is_polite: bool) -> str:
    """जाइए to आप, जाओ to तुम."""
    if is_polite:
        polite = stem + ("इए" if _ends_in_vowel(stem) else "िए")
        return POLITE_COMMANDS.get(stem, polite)
    familiar = stem + ("ओ" if _ends_in_vowel(stem) else "ो")
    return FAMILIAR_COMMANDS.get(stem, familiar)


def is_now(agreement: Agreement) -> str:
    """हूँ, है, हो, हैं."""
    if agreement.person == 2:
        return "हो"
    if agreement.is_plural:
        return "हैं"
    return "हूँ" if agreement.person == 1 else "है"


def was(agreement: Agreement) -> str:
    """था, थे, थी, थीं."""
    if agreement.gender == "m":
        return "थे" if agreement.is_plural else "था"
    return "थीं" if agreement.is_plural else "थी"
