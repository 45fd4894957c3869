"""The terminal and the picture show the numbers of the trace."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest
import torch
from explore.speakers import guesser, trace_of, translator, writer

from lookleft.explore.draw_svg import draw_svg
from lookleft.explore.draw_text import draw_text
from lookleft.explore.stages import Stage, stage_values

STAGES: list[Stage] = ["mask", "scores", "softmax", "weights", "output"]


def test_the_text_shows_every_weight_and_hides_what_is_hidden() -> None:
    trace = trace_of(translator())
    text = draw_text(trace, "decoder_self", 1, 0)
    weights = trace.training.layers["decoder_self", 1].weights[0]
    lines = re.findall(r"^ +\d+   (.*)   sum 1\.00$", text, re.MULTILINE)
    assert len(lines) == len(weights)
    for t, line in enumerate(lines):
        cells = line.split()
        assert cells[t + 1 :] == ["·"] * (len(weights) - t - 1)
        assert [float(cell) for cell in cells[: t + 1]] == pytest.approx(
            weights[t, : t + 1].tolist(), abs=0.005
        )
    assert "rows equal to training rows: yes" in text
    assert "[2] मैं" in text


def test_the_text_tells_when_the_lanes_part() -> None:
    assert "training rows: NO" in draw_text(
        trace_of(translator(), is_masked=False), "decoder_self", 0, 0
    )
    assert "exposure bias" in draw_text(trace_of(translator(), inputs="own"), "decoder_self", 0, 0)
    alone = draw_text(trace_of(guesser(), cover=(1,)), "encoder_self", 0, 0)
    assert "no second lane" in alone
    assert "of what is covered" in alone


@pytest.mark.parametrize("stage", STAGES)
def test_every_stage_is_a_sound_picture(stage: Stage) -> None:
    trace = trace_of(translator())
    root = ElementTree.fromstring(draw_svg(trace, "decoder_self", 0, 1, stage))
    texts = ["".join(element.itertext()) for element in root.iter() if element.tag.endswith("text")]
    assert any("मैं" in text for text in texts)
    assert trace.card.hash in texts[-1]
    if stage == "weights":
        values = stage_values(trace, "decoder_self", 0, 1, stage)
        assert f"{float(values[2, 1]):.2f}" in texts
    assert draw_text(trace, "cross", 0, 1, stage)


def test_dividing_the_softmax_stage_by_its_sum_gives_the_weights() -> None:
    trace = trace_of(writer())
    raised = stage_values(trace, "decoder_self", 0, 0, "softmax")
    torch.testing.assert_close(
        raised / raised.sum(-1, keepdim=True),
        stage_values(trace, "decoder_self", 0, 0, "weights"),
    )


def test_markup_in_a_sentence_is_drawn_as_text() -> None:
    picture = draw_svg(trace_of(writer(), target="<b>cat</b> sat"), "decoder_self", 0, 0)
    assert "<b>" not in picture
    ElementTree.fromstring(picture)
