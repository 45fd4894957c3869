"""Every generated sentence read again by a checker that shares no code with the grammar."""

from __future__ import annotations

import re

import pytest
from data.hindi_checker import (
    PRONOUNS,
    TENSES,
    WOMEN,
    Who,
    actor,
    clause_faults,
    ending,
    phrase_faults,
)

from lookleft.data.phrases import PhrasePair, pairs

MOODS = ("statement", "negative", "question")


@pytest.fixture(scope="module")
def by_pattern() -> dict[str, list[PhrasePair]]:
    found: dict[str, list[PhrasePair]] = {}
    for pair in pairs(seed=1):
        found.setdefault(pair.pattern, []).append(pair)
    return found


def test_every_tense_and_mood_is_there(by_pattern: dict[str, list[PhrasePair]]) -> None:
    wanted = {f"{mood}/{tense}" for mood in MOODS for tense in TENSES}
    missing = wanted - set(by_pattern)
    assert missing == {"negative/used-to", "question/used-to"}


@pytest.mark.parametrize("tense", TENSES)
@pytest.mark.parametrize("mood", MOODS)
def test_verbs_agree_and_ne_marks_exactly_the_transitive_perfective(
    by_pattern: dict[str, list[PhrasePair]], mood: str, tense: str
) -> None:
    faults = [
        fault
        for pair in by_pattern.get(f"{mood}/{tense}", [])
        for fault in clause_faults(pair.english, pair.hindi, tense, is_negative=mood == "negative")
    ]
    assert faults == []


def without_address(pair: PhrasePair) -> str:
    return re.sub(r", [^,]*$", "", pair.hindi) if "address" in pair.pattern else pair.hindi


def test_nouns_are_oblique_before_postpositions_and_modifiers_agree(
    by_pattern: dict[str, list[PhrasePair]],
) -> None:
    fixed = {"greeting/fixed", "greeting/salute", "greeting/how"}  # vocatives: मेरे दोस्त
    for pattern in by_pattern.keys() - fixed:
        for pair in by_pattern[pattern]:
            assert phrase_faults(without_address(pair)) == [], pair


@pytest.mark.parametrize(
    "wrong",
    [
        "मैंने अच्छा किताब पढ़ी।",
        "लड़का ने आम खाया।",
        "मैं अपना माँ से प्यार करता हूँ।",
        "मैंने इस लड़कों को देखा।",
        "मैंने दो लड़के को देखा।",
        "पुराना घर में एक बिल्ली है।",
        "रवि का बहन आई।",
        "आप कौन सा किताब पढ़ रहे हैं?",
    ],
)
def test_the_phrase_checker_finds_planted_mistakes(wrong: str) -> None:
    assert phrase_faults(wrong)


@pytest.mark.parametrize(
    ("english", "wrong", "tense"),
    [
        ("Sita is going home.", "सीता घर जा रहा है।", "progressive"),
        ("I ate bread.", "मैं रोटी खाया।", "past"),
        ("I ate bread.", "मैंने रोटी खाया।", "past"),
        ("Ravi went home.", "रवि ने घर गया।", "past"),
        ("I saw the girl.", "मैंने लड़की को देखी।", "past"),
        ("I will go.", "मैं जाएगा।", "future"),
        ("My father is going.", "मेरे पिता जी जा रहा है।", "progressive"),
        ("I have to read the book.", "मुझे किताब पढ़ना है।", "have-to"),
        ("I should go.", "मैं जाना चाहिए।", "should"),
    ],
)
def test_the_clause_checker_finds_planted_mistakes(english: str, wrong: str, tense: str) -> None:
    assert clause_faults(english, wrong, tense, is_negative=False)


def test_a_negated_habit_has_no_auxiliary(by_pattern: dict[str, list[PhrasePair]]) -> None:
    assert not [p for p in by_pattern["negative/habitual"] if re.search(r"(हूँ|है|हैं)।?$", p.hindi)]
    assert clause_faults("The girls do not go.", "लड़कियाँ नहीं जाती।", "habitual", is_negative=True)


def may_end(hindi: str, who: Who) -> bool:
    """Whether a clause with a bare subject could end so in some tense."""
    text = hindi.rstrip('।?"')
    is_negative = " नहीं " in text
    return any(ending(tense, who, is_negative=is_negative).search(text) for tense in TENSES)


def test_a_quoted_speaker_sets_the_gender_of_i(by_pattern: dict[str, list[PhrasePair]]) -> None:
    checked = 0
    for pair in by_pattern["compound/quote"]:
        said = pair.hindi.split('"')[1]
        if said.startswith("मैं "):
            gender = "f" if pair.english.split()[0] in WOMEN else "m"
            assert may_end(said, Who(1, gender, "sg")), pair
            checked += 1
    assert checked > 400
    assert not may_end("मैं घर जा रहा हूँ", Who(1, "f", "sg"))


def test_a_reported_speaker_agrees_too(by_pattern: dict[str, list[PhrasePair]]) -> None:
    for pair in by_pattern["compound/report"]:
        said = pair.hindi.split(" कि ")[1]
        if said.startswith("वह "):
            assert may_end(said, actor(pair.english.split(" that ", 1)[1])), pair


LISTENERS = {"brother": "m", "friend": "m", "son": "m", "sister": "f", "daughter": "f"}


def test_people_addressed_are_tum_and_sir_and_madam_aap(
    by_pattern: dict[str, list[PhrasePair]],
) -> None:
    checked = 0
    for pair in by_pattern["addressed"]:
        called = re.findall(r"[A-Za-z]+", pair.english)[-1]
        is_formal = called in ("sir", "madam")
        own, other = (r"\bआप", r"\bतुम") if is_formal else (r"\bतुम", r"\bआप")
        hindi = without_address(pair)
        assert re.search(own, hindi), pair
        assert not re.search(other, hindi), pair
        gender = (
            "f" if called in WOMEN or LISTENERS.get(called) == "f" or called == "madam" else "m"
        )
        match = re.search(r"(^|क्या )(तुम|आप) ", hindi)
        if match:
            assert may_end(hindi, Who(3 if is_formal else 2, gender, "pl")), pair
            checked += 1
    assert checked > 200


NOW_OR_THEN = re.compile(r" (हूँ|है|हैं|हो|था|थे|थी|थीं|\S*ग[ाेी])[।?]?$")


def test_states_agree_with_what_they_are_said_of(by_pattern: dict[str, list[PhrasePair]]) -> None:
    for pair in by_pattern["state/quality"]:
        who = actor(pair.english, may_be_thing=True)
        vowel = "ी" if who.gender == "f" else ("े" if who.number == "pl" else "ा")
        now = "हूँ" if who == PRONOUNS["i"] else ("हैं" if who.number == "pl" else "है")
        was = f"थ{vowel}" + ("ं" if (who.gender, who.number) == ("f", "pl") else "")
        will = ("होंग" if who.number == "pl" else "होग") + vowel
        match = NOW_OR_THEN.search(pair.hindi)
        assert match, pair
        assert match[1] in (now, was, will), pair
        quality = pair.hindi[: match.start()].removesuffix(" नहीं").split()[-1]
        changes = re.match(
            r"(बड़|छोट|पुरान|बूढ़|लंब|मोट|पतल|ठंड|काल|नील|हर|सस्त|महँग|गंद|अकेल)[ाेी]$", quality
        )
        assert not changes or quality.endswith(vowel), pair


def test_possession_agrees_with_the_thing_and_likings_take_ko(
    by_pattern: dict[str, list[PhrasePair]],
) -> None:
    assert all(" पास " in pair.hindi for pair in by_pattern["having/thing"])
    dative = re.compile(r"^(क्या )?(मुझे|हमें|आपको|उसे|उन्हें|.* को) ")
    for pattern in ("wanting", "liking/thing", "liking/doing", "feeling", "language"):
        for pair in by_pattern[pattern]:
            assert dative.search(pair.hindi), pair


def test_animals_and_people_as_objects_take_ko_and_things_do_not(
    by_pattern: dict[str, list[PhrasePair]],
) -> None:
    seen = [p for p in by_pattern["statement/past"] if re.search(r" saw ", p.english)]
    assert len(seen) > 10
    for pair in seen:
        after = pair.english.split(" saw ", 1)[1]
        if re.match(r"(the|that|this|my|his|her) (\w+ )?(boy|girl|tiger|cat|dog|woman)\b", after):
            assert " को देखा" in pair.hindi, pair
        if re.match(r"(a|an) (\w+ )?(tiger|lion|cat|dog|table|chair|book)\b", after):
            assert " को " not in pair.hindi.replace("वार को", "").replace("शाम को", ""), pair


def test_commands_are_polite_unless_a_friend_is_addressed(
    by_pattern: dict[str, list[PhrasePair]],
) -> None:
    for pattern in ("command/polite", "command/not"):
        for pair in by_pattern[pattern]:
            assert re.search(r"(इए|िए)।?$", pair.hindi), pair
            assert (" मत " in f" {pair.hindi}") == (pattern == "command/not"), pair
    for pair in by_pattern["command/addressed"]:
        is_formal = re.search(r", (sir|madam)\b", pair.english) is not None
        wanted = r"(इए|िए)$" if is_formal else r"(ो|ओ)$"
        assert re.search(wanted, without_address(pair)), pair
