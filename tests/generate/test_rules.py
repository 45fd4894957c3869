"""Rules and samplers hold to what transformers does, where it has the same."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
import transformers.generation.logits_process as theirs
from hypothesis import given
from hypothesis import strategies as st

from lookleft.errors import InputError
from lookleft.generate.methods import choose
from lookleft.generate.pick import draw, probabilities
from lookleft.generate.request import Beam, Greedy, Request, Sample
from lookleft.generate.rules import biased, no_repeated_ngram, only_allowed, repetition_penalty
from lookleft.generate.scheduler import answer_all

V = 12
TEXT = [3, 4, 5, 3, 4, 7, 3, 4]


def some_logits(seed: int = 0) -> torch.Tensor:
    return torch.randn(V, generator=torch.Generator().manual_seed(seed), dtype=torch.float64) * 2


@pytest.mark.parametrize("penalty", [0.5, 1.0, 1.7])
def test_the_repetition_penalty_is_that_of_transformers(penalty: float) -> None:
    processor = theirs.RepetitionPenaltyLogitsProcessor(penalty)
    expected = processor(torch.tensor([TEXT]), some_logits()[None].clone())[0]
    torch.testing.assert_close(repetition_penalty(penalty)(some_logits(), TEXT), expected)


@pytest.mark.parametrize("n", [1, 2, 3, 9])
def test_the_ngram_block_is_that_of_transformers(n: int) -> None:
    processor = theirs.NoRepeatNGramLogitsProcessor(n)
    expected = processor(torch.tensor([TEXT]), some_logits()[None].clone())[0]
    found = no_repeated_ngram(n)(some_logits(), TEXT)
    assert torch.equal(found, expected)
    assert bool(found.isinf().any()) == (n < 4)


def test_only_allowed_tokens_remain() -> None:
    seen = []

    def allowed(text: Any) -> list[int]:
        seen.append(list(text))
        return [1, 6]

    found = only_allowed(allowed)(some_logits(), TEXT)
    assert found.isfinite().nonzero().flatten().tolist() == [1, 6]
    assert torch.equal(found[[1, 6]], some_logits()[[1, 6]])
    assert seen == [TEXT]


def test_a_bias_moves_logits_and_leaves_a_distribution() -> None:
    found = biased({2: 1.5, 3: -math.inf})(some_logits(), TEXT)
    moved = some_logits()
    moved[2] += 1.5
    moved[3] = -math.inf
    torch.testing.assert_close(found, moved.log_softmax(-1))
    assert float(found.max()) <= 0  # a beam search relies on it


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: repetition_penalty(0.0), "repetition_penalty=0.0"),
        (lambda: repetition_penalty(math.nan), "repetition_penalty=nan"),
        (lambda: no_repeated_ngram(0), "no_repeat_ngram=0"),
        (lambda: biased({1: math.nan}), "a number or -inf"),
        (lambda: biased({99: 1.0})(some_logits(), TEXT), "bias for id 99"),
        (lambda: only_allowed(lambda text: [])(some_logits(), TEXT), "name at least one"),
        (
            lambda: only_allowed(lambda text: [99])(some_logits(), TEXT),
            r"allowed tokens are \[99\]",
        ),
        (lambda: choose(beam=4, temperature=1.0), "exclude each other"),
        (lambda: choose(beam=4, is_lookup=True), "exclude each other"),
        (lambda: choose(top_p=0.0), "top_p=0.0"),
        (lambda: choose(temperature=math.nan), "temperature=nan"),
        (lambda: choose(temperature=-1.0), "temperature=-1.0"),
        (lambda: choose(n_best=2), "n_best=2 of a beam of 1"),
        (lambda: choose(seed=-1), "seed=-1"),
    ],
)
def test_impossible_options_are_refused(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        make()


def test_plain_options_make_the_method_they_say() -> None:
    assert choose().method == choose(top_k=5).method == Greedy()  # nothing is drawn at 0 degrees
    assert choose(temperature=0.5, top_k=5, seed=2).method == Sample(0.5, 5, seed=2)
    assert choose(beam=3).method == Beam(3)


@pytest.mark.parametrize(
    ("options", "processors"),
    [
        ({"temperature": 0.7}, [theirs.TemperatureLogitsWarper(0.7)]),
        ({"top_k": 4}, [theirs.TopKLogitsWarper(4)]),
        ({"top_p": 0.6}, [theirs.TopPLogitsWarper(0.6)]),
        ({"min_p": 0.2}, [theirs.MinPLogitsWarper(0.2)]),
        (
            {"temperature": 1.4, "top_k": 6, "top_p": 0.9, "min_p": 0.05},
            [
                theirs.TemperatureLogitsWarper(1.4),
                theirs.TopKLogitsWarper(6),
                theirs.TopPLogitsWarper(0.9),
                theirs.MinPLogitsWarper(0.05),
            ],
        ),
    ],
)
def test_distributions_are_those_of_transformers(
    options: dict[str, Any], processors: list[Any]
) -> None:
    for seed in range(20):
        scores = some_logits(seed)[None]
        found = probabilities(scores, Sample(**options))
        for processor in processors:
            scores = processor(torch.tensor([TEXT]), scores)
        torch.testing.assert_close(found, scores.softmax(-1))


@given(st.lists(st.integers(0, 3), min_size=2, max_size=6), st.floats(0, 1, exclude_max=True))
def test_a_draw_never_falls_on_an_impossible_token(weights: list[int], chance: float) -> None:
    if not any(weights):
        return
    probs = torch.tensor([weights], dtype=torch.float64) / 7  # not even scaled to 1
    [drawn] = draw(probs, torch.tensor([chance], dtype=torch.float64)).tolist()
    assert weights[drawn] > 0


def test_draws_cover_the_distribution_exactly() -> None:
    probs = torch.tensor([[0.25, 0.0, 0.5, 0.25]], dtype=torch.float64)
    chances = (torch.arange(8, dtype=torch.float64) + 0.5) / 8
    assert draw(probs.expand(8, 4), chances).tolist() == [0, 0, 2, 2, 2, 2, 3, 3]


def test_rules_that_leave_nothing_end_the_text_and_not_the_batch() -> None:
    from generate.tiny import make

    def impossible(logits: torch.Tensor, text: Any) -> torch.Tensor:
        return torch.full_like(logits, -math.inf) if len(text) > 3 else logits

    model = make("decoder")
    requests = [
        Request((5, 6), max_new=5, rules=(impossible,)),
        Request((5, 6), max_new=5),
        Request((5, 6), max_new=5, method=Beam(2), rules=(impossible,)),
        Request((5, 6), max_new=5, method=Sample(), rules=(impossible,)),
    ]
    found = {event.ticket: event.answers[0] for event in answer_all(model, requests)}
    assert (found[0].finish, len(found[0].ids)) == ("stuck", 2)
    assert (found[1].finish, len(found[1].ids)) == ("length", 5)
    assert found[2].finish == found[3].finish == "stuck"
