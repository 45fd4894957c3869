"""Proof by trying: hidden tokens move nothing, exactly; seen ones do."""

from __future__ import annotations

import pytest
from explore.speakers import guesser, llama, trace_of, translator, writer

from lookleft.bundle import Bundle
from lookleft.explore.evidence import TRIES, audit_view, movement_map, prove
from lookleft.explore.states import ExploreError


@pytest.mark.parametrize("speaker", [translator(), writer(), llama()])
def test_a_hidden_token_moves_a_row_by_exactly_nothing(speaker: Bundle) -> None:
    found = prove(trace_of(speaker), "decoder_self", 1, 0, row=0, column=1)
    assert (found.is_hidden, found.moved, found.head_moved) == (True, 0.0, 0.0)
    assert found.control_row == 1
    assert found.control_moved is not None
    assert found.control_moved > 0  # the probe itself works
    assert len(found.replacements) == TRIES
    assert "exactly 0" in found.sentence


def test_a_token_that_may_be_seen_moves_the_row() -> None:
    trace = trace_of(translator())
    for kind in ("decoder_self", "cross", "encoder_self"):
        found = prove(trace, kind, 0, 0, row=2, column=0)
        assert not found.is_hidden
        assert found.moved > 0
        assert found.head_moved > 0


def test_without_the_mask_the_hidden_token_is_seen() -> None:
    found = prove(trace_of(translator(), is_masked=False), "decoder_self", 0, 0, row=0, column=2)
    assert not found.is_hidden
    assert found.moved > 0


def test_a_cell_outside_the_matrix_is_refused() -> None:
    with pytest.raises(ExploreError, match="there are 2 rows"):
        prove(trace_of(writer(), target="the cat sat"), "decoder_self", 0, 0, row=9, column=0)


def test_the_map_is_empty_above_the_diagonal_unless_the_mask_is_off() -> None:
    honest = movement_map(trace_of(translator()))
    n = honest.size(0)
    above = [(i, j) for i in range(n) for j in range(i + 1, n)]
    assert all(float(honest[i, j]) == 0.0 for i, j in above)
    assert all(float(honest[j, j]) > 0 for j in range(n))
    peeking = movement_map(trace_of(translator(), is_masked=False))
    assert all(float(peeking[i, j]) > 0 for i, j in above)


def test_the_audit_view_gives_the_verdict_and_the_worst_pair() -> None:
    honest = audit_view(trace_of(translator()), "lookleft explain runs/en-hi")
    assert honest["verdict"] == "VERIFIED"
    assert honest["worst"] is None
    assert "lookleft.load('runs/en-hi')" in honest["pytest"]
    leak = audit_view(trace_of(translator(), is_masked=False), "lookleft explain runs/en-hi")
    assert leak["verdict"] == "DISPROVED"
    assert leak["worst"]["input"] > leak["worst"]["output"]
    assert leak["module"].startswith("decoder.layers.0.")


def test_an_encoder_is_not_asked_to_look_left() -> None:
    with pytest.raises(ExploreError, match="not meant for an encoder"):
        audit_view(trace_of(guesser()), "lookleft explain bert")
