"""What `lookleft.load` gives, used as a stranger would use it."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest
import torch
from generate.speakers import TEMPLATE, TEXTS, speaker

import lookleft
from lookleft.api import Model, Translating, Ways, Writing
from lookleft.errors import FileError, InputError
from lookleft.generate.methods import choose
from lookleft.generate.recompute import Recompute


@pytest.fixture(scope="module")
def writer(tmp_path_factory: pytest.TempPathFactory) -> Model:
    folder = tmp_path_factory.mktemp("writer")
    speaker("writer", chat_template=TEMPLATE).save(folder)
    return lookleft.load(folder, engine="torch")


@pytest.fixture(scope="module")
def translator(tmp_path_factory: pytest.TempPathFactory) -> Model:
    folder = tmp_path_factory.mktemp("translator")
    speaker("translator", languages=("en", "hi")).save(folder)
    return lookleft.load(folder, engine="torch")


def test_what_a_model_knows_of_itself_is_saved_with_it(writer: Model, translator: Model) -> None:
    assert writer.chat_template == TEMPLATE
    assert translator.chat_template is None
    assert translator.languages == ("en", "hi")
    assert writer.languages == (None, None)


def test_a_template_inside_tokenizer_config_is_found_too(tmp_path: Path) -> None:
    speaker("writer").save(tmp_path)
    config = tmp_path / "tokenizer_config.json"
    text = config.read_text(encoding="utf-8").rstrip().removesuffix("}")
    for spelt in (
        '"a"',
        '[{"name": "other", "template": "b"}, {"name": "default", "template": "a"}]',
    ):
        config.write_text(f'{text}, "chat_template": {spelt}}}', encoding="utf-8")
        assert lookleft.load(tmp_path).chat_template == "a"
    (tmp_path / "chat_template.jinja").write_bytes(b"\xff")
    with pytest.raises(FileError, match=r"chat_template.jinja: is not UTF-8"):
        lookleft.load(tmp_path)


def test_one_sentence_gives_one_and_a_list_a_list(translator: Model, writer: Model) -> None:
    one = translator.translate(TEXTS[0])
    assert translator.translate([TEXTS[0], TEXTS[2]])[0] == one
    assert isinstance(one, str)
    text = writer.generate("I am", max_new=6)
    assert writer.generate(["I am", "Once"], max_new=6)[0] == text
    assert isinstance(text, str)


def test_a_stream_is_the_text_in_pieces(writer: Model) -> None:
    pieces = list(writer.stream("I am", max_new=8, temperature=0.9, seed=5))
    assert "".join(pieces) == writer.generate("I am", max_new=8, temperature=0.9, seed=5)


@pytest.mark.parametrize("beam", [1, 3])
def test_without_a_cache_the_answers_are_the_same(
    writer: Model, translator: Model, beam: int
) -> None:
    cached, recomputed = (
        writer.write(["I am", "Once"], max_new=6, beam=beam, is_cached=is_cached)
        for is_cached in (True, False)
    )
    assert [each[0].ids for each in cached] == [each[0].ids for each in recomputed]
    assert isinstance(writer.runner(is_cached=False), Recompute)
    cached_too, recomputed_too = (
        translator.translations(TEXTS[:3], max_new=6, beam=beam, is_cached=is_cached)
        for is_cached in (True, False)
    )
    assert [each[0].ids for each in cached_too] == [each[0].ids for each in recomputed_too]


def test_scores_are_those_of_what_was_written(writer: Model, translator: Model) -> None:
    [[written]] = writer.write(["I am"], max_new=5)
    ids = [*writer.encode("I am"), *written.ids]
    scores = writer.score(ids)
    assert scores[0] is None
    assert scores[-5:] == pytest.approx(written.log_probs, abs=1e-4)
    [[best]] = translator.translations(["I am"], max_new=5, beam=3)
    assert best.answer.log_probs is not None
    found = translator.score([*best.ids, *[2] * (best.answer.finish == "end")], source="I am")
    assert found == pytest.approx(best.answer.log_probs, abs=1e-4)


def test_a_translator_scores_texts_as_it_was_trained_to_read_them(tmp_path: Path) -> None:
    model = lookleft.load("en-hi", engine="torch")
    [[best]] = model.translations(["How are you?"])
    assert best.answer.log_probs is not None
    assert best.answer.finish == "end"
    found = model.score(best.text, source="How are you?")
    assert found == pytest.approx(best.answer.log_probs, abs=1e-4)


def test_texts_are_scored_as_their_ids(writer: Model) -> None:
    assert writer.score("I am") == writer.score(writer.encode("I am"))


def test_a_draft_must_write_too(writer: Model) -> None:
    drafted = writer.write(["I am"], max_new=6, draft=speaker("writer", seed=2))
    assert drafted[0][0].ids == writer.write(["I am"], max_new=6)[0][0].ids
    with pytest.raises(InputError, match="the draft model is encoder-decoder"):
        writer.write(["I am"], draft=speaker("translator"))


def test_every_option_of_a_method_can_be_given() -> None:
    assert set(Ways.__annotations__) == set(inspect.signature(choose).parameters)
    for method, options in ((Model.translations, Translating), (Model.write, Writing)):
        named = {name for name in inspect.signature(method).parameters if name != "ways"}
        assert set(options.__annotations__) - set(Ways.__annotations__) == named - {
            "self",
            "sentences",
            "prompts",
        }


def test_options_reach_the_decoder(writer: Model, translator: Model) -> None:
    text = writer.generate("I am", max_new=9)
    assert writer.generate("I am", max_new=9, stop=[text[2:4]]) == text[: text.index(text[2:4])]
    assert translator.translate("I am", prefix="मैं", max_new=3).startswith("मैं")
    drawn = translator.translate(["I am"] * 3, temperature=2.0, seed=4, max_new=6)
    assert len(set(drawn)) > 1  # each sentence draws for itself
    assert drawn[1:] == translator.translate(["I am"] * 2, temperature=2.0, seed=5, max_new=6)
    with pytest.raises(InputError, match="is_lookup is for language models"):
        translator.translate("I am", is_lookup=True)


def test_an_encoder_writes_nothing() -> None:
    reader = speaker("reader")
    with pytest.raises(InputError, match="encoder-only model: it does not write"):
        reader.generate("I am")
    assert len(reader.score("I am")) == len(reader.encode("I am"))


def test_loading_keeps_the_type_asked_for(tmp_path: Path) -> None:
    speaker("writer").save(tmp_path)
    model = lookleft.load(tmp_path, dtype=torch.float64)
    assert isinstance(model, Model)
    assert next(model.network.parameters()).dtype == torch.float64
