"""A second opinion on Hindi agreement: reads finished sentences, shares no code with the grammar.

The word lists come from the package's tables; every ending and rule is written out here again.
"""

from __future__ import annotations

import csv
import re
from importlib import resources
from typing import NamedTuple

TABLES = resources.files("lookleft.data.phrases")


class Who(NamedTuple):
    """Person (2 is तुम), gender, and number as the Hindi verb sees them."""

    person: int
    gender: str
    number: str  # "sg" or "pl"


def table(name: str) -> list[dict[str, str]]:
    text = TABLES.joinpath(f"{name}.tsv").read_text(encoding="utf-8")
    return list(csv.DictReader(text.splitlines(), delimiter="\t"))


def words_of(text: str) -> list[str]:
    return text.split()


NOUNS, VERBS, ADJECTIVES = table("nouns"), table("verbs"), table("adjectives")

# gender, ending of the word -> what replaces it in: direct, oblique, plural, oblique plural
ENDINGS = [
    ("m", "ा", ("ा", "े", "े", "ों")),
    ("m", "ी", ("ी", "ी", "ी", "ियों")),
    ("m", "ई", ("ई", "ई", "ई", "इयों")),
    ("m", "ू", ("ू", "ू", "ू", "ुओं")),
    ("m", "ि", ("ि", "ि", "ि", "ियों")),
    ("f", "िया", ("िया", "िया", "ियाँ", "ियों")),
    ("f", "ी", ("ी", "ी", "ियाँ", "ियों")),
    ("f", "ई", ("ई", "ई", "इयाँ", "इयों")),
    ("f", "ा", ("ा", "ा", "ाएँ", "ाओं")),
    ("m", "", ("", "", "", "ों")),
    ("f", "", ("", "", "ें", "ों")),
]
CASES = (("sg", "direct"), ("sg", "oblique"), ("pl", "direct"), ("pl", "oblique"))
Reading = tuple[str, str, str]  # gender, number, case


def noun_readings() -> dict[str, set[Reading]]:
    """Each noun form (last word only) -> what it can be."""
    found: dict[str, set[Reading]] = {}
    hosts = [verb["host"].split() for verb in VERBS]
    extra = [(word, gender, "") for word, gender in (h for h in hosts if h) if gender != "-"]
    words = [(n["hindi"], n["gender"], n["tags"]) for n in NOUNS] + extra
    for hindi, gender, tags in [*words, ("नाम", "m", ""), ("ज़रूरत", "f", "")]:
        word = hindi.split()[-1]
        if "elder" in tags:
            for case in ("direct", "oblique"):
                found.setdefault(word, set()).add((gender, "pl", case))
            continue
        if "fixed" in tags:
            forms = ("राजा", "राजा", "राजा", "राजाओं")
        else:
            end, new = next((e, f) for g, e, f in ENDINGS if g == gender and word.endswith(e))
            forms = tuple(word.removesuffix(end) + ending for ending in new)
        for form, (number, case) in zip(forms, CASES, strict=True):
            found.setdefault(form, set()).add((gender, number, case))
    return found


READINGS = noun_readings()
PLACES = {form for n in NOUNS if n["kind"] == "place" for form in [n["hindi"].split()[-1]]}
POSTPOSITIONS = {"ने", "को", "से", "में", "पर", "का", "के", "की"}
POSSESSIVE = re.compile(r"^(मेर|हमार|तुम्हार|आपक|उसक|उनक|अपन|किसक|क|कितन)(ा|े|ी)$")
STEMS = {a["hindi"][:-1] for a in ADJECTIVES if a["hindi"].endswith("ा") and " " not in a["hindi"]}
PLAIN = {a["hindi"] for a in ADJECTIVES if not a["hindi"].endswith("ा")} | {"हवाई", "सबसे", "बहुत"}
COUNTS = words_of("एक दो तीन चार पाँच छह सात आठ नौ दस ग्यारह बारह बीस कई कुछ कोई")
POINTERS = {"इस": "sg", "उस": "sg", "इन": "pl", "उन": "pl"}


def modifier(word: str) -> str | None:
    """The vowel a modifier was inflected to, "" if it never changes, None for another word."""
    if match := POSSESSIVE.match(word):
        return match[2]
    if word in ("नई", "नए", "सा", "सी"):  # कौन सा, कौन सी
        return {"नई": "ी", "नए": "े"}.get(word, word[-1])
    if word[:-1] in STEMS and word[-1] in "ाेी":
        return word[-1]
    if word in PLAIN or word in COUNTS or word in POINTERS or word in ("पिता", "दादा", "चाचा"):
        return ""
    return None


def phrase_faults(hindi: str) -> list[str]:
    """Nouns in the wrong case, and adjectives or possessives that disagree with their noun."""
    faults = []
    words = re.sub(r'[।?,"]', " . ", hindi).split()
    for i, word in enumerate(words):
        if word not in READINGS:
            continue
        after = words[i + 1] if i + 1 < len(words) else "."
        is_marked = after in POSTPOSITIONS
        cases = {"oblique"} if is_marked else {"direct"}
        if not is_marked and any(word.startswith(place[:-1]) for place in PLACES):
            cases = {"direct", "oblique"}  # where one goes stands in the oblique, alone
        readings = {r for r in READINGS[word] if r[2] in cases}
        before = []
        for previous in reversed(words[:i]):
            if modifier(previous) is None:
                break
            before.append(previous)
        fitting = {r for r in readings if all(_agrees(m, r) for m in before)}
        if not fitting:
            faults.append(f"{' '.join([*reversed(before), word])} ({after} follows)")
    return faults


def _agrees(word: str, reading: Reading) -> bool:
    gender, number, case = reading
    if word in POINTERS:
        return case == "oblique" and number == POINTERS[word]
    if word in COUNTS:
        return (number == "sg") == (word in ("एक", "कोई"))
    vowel = modifier(word)
    if not vowel:
        return True
    if gender == "f":
        return vowel == "ी"
    return vowel == ("ा" if (number, case) == ("sg", "direct") else "े")


PRONOUNS = {
    "i": Who(1, "m", "sg"),
    "you": Who(3, "m", "pl"),
    "he": Who(3, "m", "sg"),
    "she": Who(3, "f", "sg"),
    "we": Who(1, "m", "pl"),
    "they": Who(3, "m", "pl"),
}
MEN = {"Ravi", "Amit", "Rahul", "Mohan", "Arjun", "Vijay"}
WOMEN = {"Sita", "Meena", "Priya", "Anita", "Radha", "Neha"}
ACTORS = [n for n in NOUNS if n["kind"] in ("person", "animal") or "public" in n["tags"]]
BY_ENGLISH = {n["english"]: (n, "sg") for n in NOUNS}
BY_ENGLISH |= {n["plural"]: (n, "pl") for n in NOUNS if n["plural"] != "-"}


def actor(english: str, *, may_be_thing: bool = False) -> Who:
    """Whom an English sentence is about: its first pronoun, name or noun that can act."""
    words = re.findall(r"[A-Za-z']+", english)
    for i, word in enumerate(words):
        if word.lower() in PRONOUNS:
            return PRONOUNS[word.lower()]
        if word in MEN | WOMEN:
            if words[i + 1 : i + 2] == ["and"] and words[i + 2] in MEN | WOMEN:
                return Who(3, "f" if {word, words[i + 2]} <= WOMEN else "m", "pl")
            return Who(3, "m" if word in MEN else "f", "sg")
        noun, number = BY_ENGLISH.get(word, BY_ENGLISH.get(word.lower(), (None, "")))
        if noun is not None and (may_be_thing or noun in ACTORS):
            return Who(3, noun["gender"], "pl" if "elder" in noun["tags"] else number)
    raise AssertionError(f"nobody is spoken of in {english!r}")


ERGATIVE = re.compile(r"(^| )(मैंने|हमने|तुमने|आपने|उसने|उन्होंने|किसने|ने) ")
# The verbs whose perfective agrees with the one who acts; खेलना only when no game is named.
AGREE_WITH_ACTOR = words_of("आ ला लौट पहुँच रह सो दौड़ टहल तैर नाच हँस रो मुस्कुरा नहा उठ मिल लड़ खेल")
PAST_ENDINGS = {"m sg": "या|ा", "m pl": "ए|े", "f sg": "ई|ी", "f pl": "ईं|ीं"}
ANY_PAST = "|".join(PAST_ENDINGS.values())
ACTOR_VERB = re.compile(rf"^(({'|'.join(AGREE_WITH_ACTOR)})({ANY_PAST})|गया|गए|गई|गईं)$")
MOTION = ("जा", "आ", "लौट", "पहुँच")


def copied(english: str, hindi: str) -> Who:
    """What a verb copies when the actor is marked: the last bare noun, or nothing (m sg)."""
    words, said = hindi.split(), set(re.findall(r"[A-Za-z]+", english))
    for i in range(len(words) - 1, -1, -1):
        word, rest = words[i], [w for w in words[i + 1 :] if w != "नहीं"]
        if word not in READINGS or (rest and rest[0] in POSTPOSITIONS - {"की"}):
            continue
        if rest[:1] == ["की"] and rest[1:2] not in ([], ["है"], ["हैं"], ["थी"], ["थीं"]):
            continue  # किताब की ...: a genitive, not "did"
        if rest and rest[0].startswith(MOTION) and word[:2] in {p[:2] for p in PLACES}:
            continue  # the goal of a journey is no object
        gender = min(READINGS[word])[0]
        rows = [n for n in NOUNS if n["plural"] in said and _is_form_of(word, n["hindi"])]
        return Who(3, gender, "pl" if rows else "sg")
    return Who(3, "m", "sg")


def _is_form_of(form: str, hindi: str) -> bool:
    stem = hindi.split()[-1]
    return form.startswith(stem if len(stem) < 3 else stem[:-1])


def ending(tense: str, who: Who, *, is_negative: bool) -> re.Pattern[str]:
    """How a clause must end whose verb copies `who`."""
    vowel = "ी" if who.gender == "f" else ("े" if who.number == "pl" else "ा")
    nasal = vowel + ("ं" if (who.gender, who.number) == ("f", "pl") else "")
    now = {1: "हूँ", 2: "हो", 3: "है"}[who.person]
    now = "हैं" if who.number == "pl" and who.person != 2 else now
    was = "थ" + nasal
    habit = rf"नहीं (\S+ )?\S*{{}}{nasal}$" if is_negative else rf"{{}}{vowel} {now}$"
    past = PAST_ENDINGS[f"{who.gender} {who.number}"]
    joined_past = past.replace("ं", "")
    will = {1: "ूँ|ऊँ|ऊं", 2: "ो|ओ|हो", 3: "े|ए|हो"}[who.person]
    will = "ें|एँ|हों" if who.number == "pl" and who.person != 2 else will
    return re.compile(
        {
            "habitual": habit.format("त"),
            "progressive": rf" रह{vowel} {now}$",
            "past-progressive": rf" रह{vowel} {was}$",
            "used-to": rf"त{vowel} {was}$",
            "past": rf"({past})$",
            "perfect": rf"({joined_past}) {now}$",
            "past-perfect": rf"({joined_past}) {was}$",
            "future": rf"({will})ग{vowel}$",
            "can": habit.format("सकत"),
            "want": rf"ना {habit.format('चाहत')}",
            "have-to": rf"न{vowel} {now}$",
            "should": rf"न{vowel} चाहिए$",
            "had-to": rf"न{vowel} पड़{nasal}$",
        }[tense]
    )


TENSES = words_of(
    "habitual progressive past-progressive used-to past perfect past-perfect future can want "
    "have-to should had-to"
)
DUTIES = ("have-to", "should", "had-to")
PERFECTIVES = ("past", "perfect", "past-perfect")


def clause_faults(english: str, hindi: str, tense: str, *, is_negative: bool) -> list[str]:
    """Wrong agreement, a missing or needless ने, a missing को, in a clause of one tense."""
    text = hindi.rstrip("।?")
    words = text.split()
    is_ergative = bool(ERGATIVE.search(text))
    if tense in PERFECTIVES:
        main = words[-1] if tense == "past" else words[-2]
        plays_game = main.startswith("खेल") and {"क्रिकेट", "फ़ुटबॉल", "हॉकी"} & set(words)
        if is_ergative == (bool(ACTOR_VERB.match(main)) and not plays_game):
            return [f"ने is {'there' if is_ergative else 'missing'}: {text}"]
    elif is_ergative:
        return [f"ने without a perfective: {text}"]
    is_marked = is_ergative or tense in DUTIES
    if tense in DUTIES and not re.search(r"(^| )(मुझे|हमें|तुम्हें|आपको|उसे|उन्हें|को) ", text):
        return [f"a duty needs को: {text}"]
    who = copied(english, text) if is_marked else actor(english)
    if not ending(tense, who, is_negative=is_negative).search(text):
        return [f"{who} {tense}: {text}"]
    return []
