"""The decode loop driven by the engine writes what it writes with the network."""

from __future__ import annotations

import pytest
from engine.test_runner import twins
from invariants.families import random_ids

from lookleft.config import EncoderDecoderConfig
from lookleft.engine.runner import Runner
from lookleft.generate.request import GREEDY, Answer, Beam, Method, Request
from lookleft.generate.scheduler import answer_all
from lookleft.models import AnyModel

NAMES = [
    "decoder-only rotary-grouped",
    "decoder-only window-rotary",
    "encoder-decoder relative-rms",
]


def answers(runner: AnyModel | Runner, method: Method) -> list[Answer]:
    """Of eight texts, of which three at most are under way at a time: rows leave and join."""
    requests = []
    for i in range(8):
        ids = tuple(random_ids(3 + i % 4, seed=i).tolist())
        is_translator = isinstance(runner.config, EncoderDecoderConfig)
        given = {"source": ids} if is_translator else {"prompt": ids}
        requests.append(Request(**given, max_new=4 + i, ends=(7,), method=method))
    width = method.width if isinstance(method, Beam) else 1
    done = answer_all(runner, requests, max_rows=3 * width)  # type: ignore[arg-type]
    return [each.answers[0] for each in sorted(done, key=lambda each: each.ticket)]


@pytest.mark.parametrize("method", [GREEDY, Beam(3)], ids=["greedy", "beam"])
@pytest.mark.parametrize("name", NAMES)
def test_greedy_and_beam_search_write_the_same(name: str, method: Method) -> None:
    network, runner = twins(name)
    expected, found = answers(network, method), answers(runner, method)
    assert [each.ids for each in found] == [each.ids for each in expected]
    assert len({len(each.ids) for each in expected}) > 1  # rows did end at different times
    for ours, theirs in zip(found, expected, strict=True):
        assert ours.score == pytest.approx(theirs.score, abs=1e-4)
