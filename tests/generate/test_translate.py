"""Translating text: order, refusals one by one, forced beginnings, languages."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from generate.speakers import TEXTS, speaker
from tokenizers import AddedToken
from tokenizers import Tokenizer as Backend

from lookleft.api import Model
from lookleft.errors import InputError
from lookleft.generate.methods import choose
from lookleft.generate.request import Answer, Beam
from lookleft.generate.scheduler import answer_all
from lookleft.generate.translate import Options, Translation, Translator, translate
from lookleft.text.tokenizer import Tokenizer

SENTENCES = [TEXTS[0], "", TEXTS[2], "घर", "   "]


def test_sentences_keep_their_order_and_empty_ones_stay_empty() -> None:
    model = speaker("translator")
    found = translate(model, SENTENCES)
    assert found == [translate(model, [sentence])[0] for sentence in SENTENCES]
    assert [bool(text) for text in found] == [True, False, True, True, False]
    assert translate(model, []) == []


def test_one_bad_sentence_leaves_the_others_alone() -> None:
    model = speaker("translator", context=20)
    translator = Translator(model, Options())
    given = ["I am", "home " * 40, "house", "\ud800"]
    found = dict(translator.each(given))
    assert [isinstance(found[place], InputError) for place in range(4)] == [
        False,
        True,
        False,
        True,
    ]
    assert "but this model reads at most 20" in str(found[1])
    expected = dict(translator.each(["I am", "", "house"]))
    assert (found[0], found[2]) == (expected[0], expected[2])
    with pytest.raises(InputError, match="sentence 2: the source has"):
        translate(model, given)


def test_several_translations_come_best_first() -> None:
    model = speaker("translator")
    [beam] = model.translations(TEXTS[:1], max_new=8, beam=6, n_best=3)
    scores = [one.answer.score or 0.0 for one in beam]
    assert scores == sorted(scores, reverse=True)
    assert len({one.text for one in beam}) == 3
    assert model.translate(TEXTS[0], max_new=8, beam=6) == beam[0].text


def test_a_translation_begins_as_it_must() -> None:
    model = speaker("translator")
    [found] = model.translations(["I am"], prefix="मैं घर", max_new=6)
    assert found[0].text.startswith("मैं घर")
    assert len(found[0].answer.ids) == 6
    assert model.tokenizer is not None
    assert found[0].ids == [*model.tokenizer.encode("मैं घर"), *found[0].answer.ids]


def test_space_around_an_answer_is_not_part_of_the_translation() -> None:
    model = speaker("translator")
    assert model.tokenizer is not None
    ids = model.tokenizer.encode("  मैं घर ")
    assert model.tokenizer.decode(ids).startswith(" ")
    found = Translator(model, Options()).translation(Answer(ids, "end"))
    assert (found.text, found.ids) == ("मैं घर", ids)


def test_a_changed_method_keeps_the_rest() -> None:
    model = speaker("translator")
    translator = Translator(model, Options(max_new=4))
    [(_, found)] = translator.with_method(Beam(3, n_best=2)).each(["I am"])
    assert not isinstance(found, InputError)
    assert [isinstance(one, Translation) for one in found] == [True, True]
    assert translator.options.method == choose().method


def with_languages(*pieces: str) -> Model:
    """A translator whose vocabulary has these tokens, in place of bytes that nobody needs."""
    model = speaker("translator")
    assert model.tokenizer is not None
    backend = Backend.from_str(model.tokenizer._content)
    content = backend.to_str()
    for i, piece in enumerate(pieces):
        content = content.replace(f'"<0x{i:02X}>"', f'"{piece}"')
    backend = Backend.from_str(content)
    backend.add_special_tokens([AddedToken(piece, special=True) for piece in pieces])
    model.tokenizer = Tokenizer(backend.to_str(), model.tokenizer.specials)
    return model


@pytest.mark.parametrize(
    ("pieces", "codes", "before_source", "before_target"),
    [
        (["__en__", "__hi__"], ("en", "hi"), ["__en__"], ["__hi__"]),
        (["en_XX", "hi_IN"], ("en", "hi"), ["en_XX"], ["hi_IN"]),
        (["eng_Latn", "hin_Deva"], ("eng_Latn", "hin_Deva"), ["eng_Latn"], ["hin_Deva"]),
        ([">>hin<<", ">>fra<<"], (None, "hin"), [">>hin<<"], []),
    ],
)
def test_languages_are_told_by_their_tokens(
    pieces: list[str],
    codes: tuple[str | None, str],
    before_source: list[str],
    before_target: list[str],
) -> None:
    model = with_languages(*pieces)
    assert model.tokenizer is not None
    options = Options(source_language=codes[0], target_language=codes[1])
    asked = Translator(model, options).request("I am")
    plain = model.tokenizer.encode("I am", eos=True)
    ids = [model.tokenizer.id_of(piece) for piece in before_source]
    assert list(asked.source or ()) == [*ids, *plain]
    assert list(asked.prompt) == [model.tokenizer.id_of(piece) for piece in before_target]
    with pytest.raises(InputError, match=r"cannot translate to 'xx': this model knows "):
        Translator(model, Options(target_language="xx"))


def test_a_model_of_one_pair_refuses_every_other() -> None:
    model = speaker("translator", languages=("en", "hi"))
    Translator(model, Options(source_language="en", target_language="hi"))
    Translator(model, Options(target_language="hi"))
    with pytest.raises(InputError, match=r"cannot translate en to de: .* one pair .*, en to hi"):
        Translator(model, Options(source_language="en", target_language="de"))
    silent = speaker("translator")
    with pytest.raises(InputError, match="does not say which; leave the languages out"):
        Translator(silent, Options(target_language="hi"))


def test_models_that_do_not_translate_say_so() -> None:
    with pytest.raises(InputError, match="decoder-only model: it does not translate"):
        translate(speaker("writer"), ["I am"])
    model = speaker("translator")
    model.tokenizer = None
    with pytest.raises(InputError, match="without a tokenizer"):
        translate(model, ["I am"])
    with pytest.raises(InputError, match="max_new=0"):
        translate(speaker("translator"), ["I am"], max_new=0)


@pytest.mark.parametrize("beam", [1, 3])
def test_padding_is_never_said(beam: int) -> None:
    model = speaker("translator")
    assert model.network.head.own_weight is not None
    loudest = int(model.translations(["I am"], max_new=1)[0][0].ids[0])
    with torch.no_grad():  # padding is now as likely as what was the likeliest, and then some
        model.network.head.own_weight[0] = 1.1 * model.network.head.own_weight[loudest]
    translator = Translator(model, Options(method=choose(beam=beam).method, max_new=6))
    asked = translator.request("I am")
    assert asked.forbidden == (0,)
    for request, is_said in ((asked, False), (replace(asked, forbidden=()), True)):
        [done] = answer_all(model.network, [request])
        assert (0 in done.answers[0].ids) == is_said
