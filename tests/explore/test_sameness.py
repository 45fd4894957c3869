"""The rows of both lanes are the same rows; take the mask away, and they are not."""

from __future__ import annotations

import pytest
import torch
from explore.speakers import ENGLISH, HINDI, llama, trace_of, translator, writer

from lookleft.bundle import Bundle
from lookleft.explore.layout import trace_json
from lookleft.explore.sameness import TOLERANCE, compare_lanes


@pytest.mark.parametrize("speaker", [translator(), writer(), llama()])
@pytest.mark.parametrize("is_cached", [True, False])
def test_with_the_same_inputs_the_lanes_agree(speaker: Bundle, is_cached: bool) -> None:
    found = compare_lanes(trace_of(speaker, is_cached=is_cached))
    assert found is not None
    assert found.is_same
    assert found.largest <= TOLERANCE
    assert found.first_difference is None
    assert len(found.rows) == found.n_steps


@pytest.mark.parametrize("speaker", [translator(), writer(), llama()])
def test_without_the_mask_training_sees_what_inference_cannot(speaker: Bundle) -> None:
    trace = trace_of(speaker, is_masked=False)
    found = compare_lanes(trace)
    assert found is not None
    assert not found.is_same
    assert found.largest > 0.01
    upper = trace.training.layers["decoder_self", 0].weights[:, 0, 1:]
    assert bool((upper > 0).all())  # the upper triangle fills
    shown = trace_json(trace)
    assert all(all(row) for row in shown["masks"]["decoder_self"]["causal"])
    assert not shown["settings"]["is_masked"]


def test_the_last_row_alone_keeps_its_past_without_the_mask() -> None:
    """In one layer the last row sees nothing more: the difference comes from the rows before."""
    speaker = translator(n_decoder_layers=1)
    found = compare_lanes(trace_of(speaker, is_masked=False))
    assert found is not None
    assert float(found.rows[-1]) <= TOLERANCE < float(found.rows[0])


def test_reading_its_own_words_is_compared_up_to_the_first_other_word() -> None:
    trace = trace_of(translator(), inputs="own")
    lane, found = trace.inference, compare_lanes(trace)
    assert lane is not None
    assert found is not None
    reference = [token.id for token in trace.lesson.columns]
    first = next(t for t, id in enumerate(lane.reads) if id != reference[t])
    assert found.first_difference == first
    assert len(found.rows) == first
    chosen = lane.logits.argmax(-1).tolist()
    assert lane.reads[1:] == chosen[: len(lane.reads) - 1]  # each step reads what the last one said
    rows = trace_json(trace)["sameness"]["rows"]
    assert all(row is None for row in rows[first:])


def test_what_the_model_wrote_itself_reads_the_same_in_both_modes() -> None:
    speaker = translator()
    written = trace_of(speaker, source=ENGLISH, target=None, max_new=6, inputs="own")
    found = compare_lanes(written)
    assert found is not None
    assert found.first_difference is None
    assert found.is_same


def test_own_words_end_with_the_end_token() -> None:
    speaker = translator(tie_embeddings=False, logit_bias=True)
    eos = speaker.specials.require("eos")
    with torch.no_grad():
        speaker.network.head.bias[eos] = 100.0
    shown = trace_json(trace_of(speaker, target=HINDI, inputs="own"))["inference"]
    assert shown["stopped"] == "end"
    assert len(shown["steps"]) == 1
    assert shown["steps"][0]["is_end"]
    assert shown["text"] == ""
