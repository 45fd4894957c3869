"""Hindi word forms against tables written by hand."""

from __future__ import annotations

import pytest

from lookleft.data.phrases.morphology import (
    Agreement,
    command,
    future,
    imperfective,
    infinitive,
    inflect,
    is_now,
    noun_forms,
    perfective,
    was,
)

NOUNS = """
लड़का m लड़का लड़के लड़के लड़कों
कमरा m कमरा कमरे कमरे कमरों
दरवाज़ा m दरवाज़ा दरवाज़े दरवाज़े दरवाज़ों
घर m घर घर घर घरों
गाँव m गाँव गाँव गाँव गाँवों
आदमी m आदमी आदमी आदमी आदमियों
हाथी m हाथी हाथी हाथी हाथियों
भाई m भाई भाई भाई भाइयों
आलू m आलू आलू आलू आलुओं
भालू m भालू भालू भालू भालुओं
लड़की f लड़की लड़की लड़कियाँ लड़कियों
मिठाई f मिठाई मिठाई मिठाइयाँ मिठाइयों
किताब f किताब किताब किताबें किताबों
मेज़ f मेज़ मेज़ मेज़ें मेज़ों
गाय f गाय गाय गायें गायों
चिड़िया f चिड़िया चिड़िया चिड़ियाँ चिड़ियों
कविता f कविता कविता कविताएँ कविताओं
दवा f दवा दवा दवाएँ दवाओं
"""

PERFECTIVES = """
जा गया गए गई गईं
आ आया आए आई आईं
खा खाया खाए खाई खाईं
पी पिया पिए पी पीं
कर किया किए की कीं
दे दिया दिए दी दीं
ले लिया लिए ली लीं
हो हुआ हुए हुई हुईं
सो सोया सोए सोई सोईं
देख देखा देखे देखी देखीं
पढ़ पढ़ा पढ़े पढ़ी पढ़ीं
"""

FUTURES = """
जा जाऊँगा जाएगा जाएँगे जाओगे जाएँगी
कर करूँगा करेगा करेंगे करोगे करेंगी
दे दूँगा देगा देंगे दोगे देंगी
ले लूँगा लेगा लेंगे लोगे लेंगी
पी पिऊँगा पिएगा पिएँगे पिओगे पिएँगी
सो सोऊँगा सोएगा सोएँगे सोओगे सोएँगी
हो होऊँगा होगा होंगे होगे होंगी
देख देखूँगा देखेगा देखेंगे देखोगे देखेंगी
"""

COMMANDS = """
जा जाइए जाओ
आ आइए आओ
कर कीजिए करो
दे दीजिए दो
ले लीजिए लो
पी पीजिए पियो
सो सोइए सोओ
देख देखिए देखो
बैठ बैठिए बैठो
"""

I_AM = Agreement(1, "m", False)
HE = Agreement(3, "m", False)
SHE = Agreement(3, "f", False)
THEY = Agreement(3, "m", True)
WOMEN = Agreement(3, "f", True)
FRIEND = Agreement(2, "m", True)


def rows(text: str) -> list[list[str]]:
    return [line.split() for line in text.strip().splitlines()]


@pytest.mark.parametrize("row", rows(NOUNS), ids=lambda row: row[0])
def test_a_noun_has_its_four_forms(row: list[str]) -> None:
    word, gender, *forms = row
    assert gender in ("m", "f")
    assert list(noun_forms(word, "m" if gender == "m" else "f")) == forms


def test_a_fixed_masculine_keeps_its_ending() -> None:
    assert noun_forms("राजा", "m", is_fixed=True) == ("राजा", "राजा", "राजा", "राजाओं")


@pytest.mark.parametrize("row", rows(PERFECTIVES), ids=lambda row: row[0])
def test_a_perfective_agrees_in_gender_and_number(row: list[str]) -> None:
    stem, *forms = row
    assert [perfective(stem, who) for who in (HE, THEY, SHE, WOMEN)] == forms


def test_the_feminine_plural_is_nasal_only_in_the_last_word() -> None:
    assert perfective("जा", WOMEN, has_auxiliary=True) == "गई"
    assert imperfective("जा", WOMEN) == "जाती"
    assert imperfective("जा", WOMEN, has_auxiliary=False) == "जातीं"


@pytest.mark.parametrize("row", rows(FUTURES), ids=lambda row: row[0])
def test_a_future_agrees_in_person_number_and_gender(row: list[str]) -> None:
    stem, *forms = row
    assert [future(stem, who) for who in (I_AM, HE, THEY, FRIEND, WOMEN)] == forms


@pytest.mark.parametrize("row", rows(COMMANDS), ids=lambda row: row[0])
def test_a_command_is_polite_or_familiar(row: list[str]) -> None:
    stem, polite, familiar = row
    assert command(stem, is_polite=True) == polite
    assert command(stem, is_polite=False) == familiar


@pytest.mark.parametrize(
    ("word", "forms"),
    [
        ("अच्छा", "अच्छा अच्छे अच्छे अच्छी"),
        ("नया", "नया नए नए नई"),
        ("लाल", "लाल लाल लाल लाल"),
        ("आलसी", "आलसी आलसी आलसी आलसी"),
    ],
)
def test_an_adjective_agrees_if_it_ends_in_aa(word: str, forms: str) -> None:
    direct, oblique = inflect(word, "m", False), inflect(word, "m", False, True)
    plural, feminine = inflect(word, "m", True), inflect(word, "f", True)
    assert f"{direct} {oblique} {plural} {feminine}" == forms


def test_both_words_of_a_double_participle_agree() -> None:
    assert inflect("थका हुआ", "f", False) == "थकी हुई"
    assert inflect("थका हुआ", "m", True) == "थके हुए"


def test_to_be_agrees() -> None:
    everyone = (I_AM, HE, SHE, THEY, WOMEN, FRIEND)
    assert [is_now(who) for who in everyone] == ["हूँ", "है", "है", "हैं", "हैं", "हो"]
    assert [was(who) for who in everyone] == ["था", "था", "थी", "थे", "थीं", "थे"]


def test_an_infinitive_of_duty_agrees_with_its_object() -> None:
    assert infinitive("पढ़", SHE) == "पढ़नी"
    assert infinitive("पढ़", THEY) == "पढ़ने"
    assert infinitive("पढ़") == "पढ़ना"
