"""Writing text: batches, streams, stop strings and guesses all give the same text."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from generate.speakers import speaker, tokenizer

from lookleft.bundle import Bundle
from lookleft.engine.pick import pick_runner
from lookleft.errors import InputError
from lookleft.generate.methods import choose
from lookleft.generate.write import Writer
from lookleft.models import build

PROMPTS = ["Once upon", "I am", "मैं घर"]


def writer(**options: Any) -> Writer:
    ways = {
        name: options.pop(name)
        for name in ("beam", "n_best", "temperature", "is_lookup", "seed")
        if name in options
    }
    return Writer(speaker("writer"), choose(**ways), max_new=16, **options)


def joined(pieces: Any) -> tuple[str, Any]:
    text = ""
    while True:
        try:
            text += next(pieces)
        except StopIteration as end:
            return text, end.value


@pytest.mark.parametrize(
    "ways", [{}, {"beam": 3, "n_best": 2}, {"temperature": 1.0}, {"is_lookup": True}]
)
def test_streamed_and_written_text_are_the_same(ways: dict[str, Any]) -> None:
    one = writer(wants_log_probs=True, **ways)
    text, streamed = joined(one.stream(PROMPTS[0]))
    written = one.write(PROMPTS[:1])[0]
    assert len(written) == ways.get("n_best", 1)
    assert text == streamed.text == written[0].text
    assert streamed == written[0]
    assert one.tokenizer.decode(written[0].ids) == text
    assert written[0].n_prompt == len(one.tokenizer.encode(PROMPTS[0]))


def test_prompts_of_a_batch_are_answered_as_alone() -> None:
    one = writer()
    assert one.write(PROMPTS) == [one.write([prompt])[0] for prompt in PROMPTS]


@pytest.mark.parametrize("ways", [{}, {"beam": 3}, {"is_lookup": True}])
def test_a_text_ends_before_its_stop_string(ways: dict[str, Any]) -> None:
    [[whole]] = writer(**ways).write(PROMPTS[:1])
    stop = whole.text[5:8]
    assert stop.strip()
    stopping = writer(stops=[stop], **ways)
    [[cut]] = stopping.write(PROMPTS[:1])
    assert cut.text == whole.text[: whole.text.index(stop)]
    assert cut.finish == "stop"
    assert joined(stopping.stream(PROMPTS[0]))[0] == cut.text
    if not ways:
        assert len(cut.ids) < len(whole.ids)  # and nothing is written for the bin


def test_a_batch_goes_on_when_one_text_has_met_its_stop_string() -> None:
    alone = {prompt: writer().write([prompt])[0][0] for prompt in PROMPTS}
    stop = next(
        text[i : i + 3]
        for text in [alone[PROMPTS[0]].text]
        for i in range(4, len(text) - 3)
        if text[i : i + 3] not in alone[PROMPTS[1]].text
    )
    found = writer(stops=[stop]).write(PROMPTS[:2])
    assert found[0][0].finish == "stop"
    assert found[1][0].text == alone[PROMPTS[1]].text


def test_an_engine_that_writes_ahead_stops_where_the_network_does() -> None:
    model = speaker("writer")
    whole = writer().write(PROMPTS)
    stop = whole[0][0].text[5:8]
    found = []
    for engine in ("torch", "numba"):
        runner = pick_runner(model, engine)
        one = Writer(model, choose(), max_new=16, stops=[stop], wants_log_probs=True, runner=runner)
        found.append([each for [each] in one.write(PROMPTS)])
    for theirs, ours in zip(*found, strict=True):
        assert (ours.text, ours.ids, ours.finish) == (theirs.text, theirs.ids, theirs.finish)
        assert ours.log_probs == pytest.approx(theirs.log_probs, abs=1e-4)
    assert found[1][0].finish == "stop"
    assert len(found[1][0].ids) < len(whole[0][0].ids)  # what came after it is not kept


def test_each_prompt_of_a_batch_draws_from_its_own_seed() -> None:
    sampled = writer(temperature=1.5, seed=3).write([PROMPTS[0], PROMPTS[0]])
    assert sampled[0][0].ids != sampled[1][0].ids
    assert writer(temperature=1.5, seed=4).write(PROMPTS[:1])[0][0].ids == sampled[1][0].ids


def test_a_draft_model_does_not_change_the_text() -> None:
    drafted = writer(draft=speaker("writer", seed=1).network)
    assert drafted.write(PROMPTS) == writer().write(PROMPTS)


def test_ids_are_taken_as_they_are() -> None:
    one = writer()
    assert one.write([one.tokenizer.encode(PROMPTS[0])]) == one.write(PROMPTS[:1])


def test_a_further_end_token_ends_the_text() -> None:
    [[whole]] = writer().write(PROMPTS[:1])
    [[ended]] = writer(ends=[whole.ids[3]]).write(PROMPTS[:1])
    assert ended.ids == whole.ids[: whole.ids.index(whole.ids[3])]
    assert ended.finish == "end"


@pytest.mark.parametrize(
    ("kind", "message"),
    [("translator", "encoder-decoder model.*use translate"), ("reader", "it can only be scored")],
)
def test_models_that_continue_no_text_say_so(kind: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        Writer(speaker(kind), choose())


def test_a_model_without_a_tokenizer_cannot_read_text() -> None:
    model = speaker("writer")
    model.tokenizer = None
    with pytest.raises(InputError, match="without a tokenizer"):
        Writer(model, choose())


def test_an_empty_prompt_and_an_empty_stop_string_are_refused() -> None:
    with pytest.raises(InputError, match="the prompt is empty"):
        writer().write([""])
    with pytest.raises(InputError, match="a stop string is empty"):
        writer(stops=[""])


def test_rows_beyond_the_tokenizer_are_never_said() -> None:
    """As in checkpoints whose vocabulary was filled up to a round number."""
    words = tokenizer()
    config = speaker("writer").network.config.model_copy(update={"vocab_size": 400})
    model = Bundle(build(config, torch.Generator().manual_seed(0)), words, words.specials)
    every: list[dict[str, Any]] = [{}, {"temperature": 1.5}, {"beam": 2}, {"is_lookup": True}]
    for ways in every:
        [[written]] = Writer(model, choose(**ways), max_new=60).write(["I am"])
        assert max(written.ids) < len(words)


def test_one_stop_string_needs_no_list() -> None:
    assert writer(stops="Za").stops == ("Za",)


def test_a_beam_may_be_wider_than_a_batch() -> None:
    [[written]] = writer(beam=70).write(["I am"])
    assert written.text
