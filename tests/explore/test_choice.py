"""A reader puts words into the model's mouth: the inference lane goes on from them."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from explore.speakers import trace_of, translator, writer

from lookleft.bundle import Bundle
from lookleft.data.batch import Batch, as_rows
from lookleft.errors import ConfigError
from lookleft.explore.layout import trace_json
from lookleft.explore.lesson import TraceRequest
from lookleft.explore.one_file import file_data
from lookleft.explore.states import ExploreError
from lookleft.explore.trace import make_trace


@pytest.mark.parametrize("is_cached", [True, False])
@pytest.mark.parametrize("make", [translator, writer])
def test_forced_words_are_read_and_the_rest_is_the_models_own(
    make: Callable[[], Bundle], is_cached: bool
) -> None:
    speaker = make()
    trace = trace_of(speaker, inputs="own", forced=(9, 11), is_cached=is_cached)
    lane = trace.inference
    assert lane is not None
    assert lane.said[:2] == [9, 11]
    assert lane.reads[1:3] == [9, 11][: len(lane.reads) - 1]
    rows = as_rows(torch.tensor([lane.reads]))
    with torch.no_grad():
        at_once = speaker.network.score(Batch(rows, source=trace.lesson.batch.source))[0]
    torch.testing.assert_close(lane.logits, at_once, rtol=1e-4, atol=1e-5)
    own = trace_of(speaker, inputs="own", is_cached=is_cached)
    assert own.inference is not None
    assert own.inference.reads != lane.reads  # or nothing was shown
    assert own.id != trace.id


def test_the_page_is_told_what_was_forced_and_how_likely_it_was() -> None:
    shown = trace_json(trace_of(translator(), inputs="own", forced=(9,)))
    first, second = shown["inference"]["steps"][:2]
    assert shown["settings"]["forced"] == [9]
    assert (first["chosen"]["id"], first["is_forced"], second["is_forced"]) == (9, True, False)
    assert first["chosen"]["prob"] <= first["candidates"][0]["prob"]
    assert first["next"]["id"] == 9
    assert second["chosen"] == second["candidates"][0]


def test_an_end_that_is_forced_ends_the_lane() -> None:
    speaker = translator()
    eos = speaker.specials.require("eos")
    shown = trace_json(trace_of(speaker, inputs="own", forced=(9, eos)))["inference"]
    assert [step["is_end"] for step in shown["steps"]] == [False, True]
    assert shown["stopped"] == "end"


def test_a_file_holds_the_choice_and_the_lane_without_it() -> None:
    trace = trace_of(translator(), inputs="own", forced=(9,))
    data = file_data(
        trace.request,
        lambda request: make_trace(trace.bundle, trace.card, request),
        [trace.card],
        command="lookleft explain",
        scope="head",
    )
    settings = [view["trace"]["settings"] for view in data["views"]]
    assert [one["forced"] for one in settings if one["inputs"] == "same"] == [[]]
    assert settings[0]["forced"] == [9]


def test_words_that_cannot_be_forced_are_refused() -> None:
    with pytest.raises(ExploreError, match="need inputs 'own'"):
        trace_of(translator(), forced=(9,))
    with pytest.raises(ExploreError, match="the vocabulary has"):
        trace_of(translator(), inputs="own", forced=(10**6,))
    with pytest.raises(ConfigError, match="forced"):
        TraceRequest.parse({"forced": [-1]}, "the request")
