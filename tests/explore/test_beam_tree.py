"""The beam view watches the search that translates."""

from __future__ import annotations

import pytest
from explore.speakers import ENGLISH, translator, writer

from lookleft.explore.beam_tree import BeamRequest, beam_tree
from lookleft.explore.states import ExploreError
from lookleft.generate.decode import generate_ids


def test_a_tree_of_one_beam_is_the_greedy_path() -> None:
    speaker = translator()
    found = beam_tree(speaker, BeamRequest(source=ENGLISH, size=1, max_new=6))
    assert speaker.tokenizer is not None
    source = speaker.tokenizer.encode(ENGLISH, eos=True)
    eos = speaker.specials.eos
    greedy = generate_ids(speaker.network, [source], max_new=6, eos=eos)[0]
    path = [found["nodes"][id]["token"]["id"] for id in found["best"]]
    assert [id for id in path if id != eos] == greedy


def test_every_node_hangs_on_its_parent_and_sums_only_fall() -> None:
    found = beam_tree(translator(), BeamRequest(source=ENGLISH, size=3, max_new=6))
    nodes = {node["id"]: node for node in found["nodes"]}
    for node in nodes.values():
        parent = None if node["parent"] is None else nodes[node["parent"]]
        assert node["step"] == (0 if parent is None else parent["step"] + 1)
        if parent is not None:
            assert node["log_prob"] <= parent["log_prob"]
    widths = [sum(node["step"] == step for node in nodes.values()) for step in range(6)]
    assert max(widths) <= 2 * 3  # those that run, and those that ended beside them
    scores = [one["score"] for one in found["hypotheses"]]
    assert scores == sorted(scores, reverse=True)
    best = nodes[found["hypotheses"][0]["node"]]
    assert best["is_best"]
    assert found["best"][-1] == best["id"]


def test_only_translators_have_a_beam_view() -> None:
    with pytest.raises(ExploreError, match="for translation"):
        beam_tree(writer(), BeamRequest(source=ENGLISH))


def test_a_source_that_does_not_fit_is_refused() -> None:
    with pytest.raises(ExploreError) as caught:
        beam_tree(translator(), BeamRequest(source="the cat " * 60))
    assert caught.value.code == "too_long"
