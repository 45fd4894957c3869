"""Speculative decoding: the same greedy text, exactly the same distribution, fewer passes."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest
import torch
from generate.tiny import CONFIGS, PROMPTS, WAYS, answers, make, request
from torch import Tensor

from lookleft.errors import InputError
from lookleft.generate.methods import choose
from lookleft.generate.request import GREEDY, Beam, Done, Request, Sample, Token
from lookleft.generate.speculate import (
    DraftModel,
    Guess,
    PromptLookup,
    accept,
    distribution,
    one_hot,
    speculate,
)


def outcome(p: list[list[int]], q: list[list[int]], n_grid: int) -> dict[tuple[int, ...], Fraction]:
    """How often each result of `accept` comes, over all guesses and all chances, exactly.

    p, q: in twelfths, one row per position. Chances are the middles of equal parts, n_grid for
    each guess and 12 for the token after all; every threshold falls between two parts if n_grid
    is a common multiple, so that counting is exact.
    """
    target, draft = (torch.tensor(x, dtype=torch.float64) / 12 for x in (p, q))
    grids = [[(k + 0.5) / n for k in range(n)] for n in [*[n_grid] * len(q), 12]]
    n_chances = n_grid ** len(q) * 12
    found: dict[tuple[int, ...], Fraction] = {}
    for ids in itertools.product(range(3), repeat=len(q)):
        weight = Fraction(1)
        for row, id in zip(q, ids, strict=True):
            weight *= Fraction(row[id], 12)
        if not weight:
            continue
        for drawn in itertools.product(*grids):
            guess = Guess(list(ids), draft)
            new = tuple(accept(target, guess, torch.tensor(drawn, dtype=torch.float64)))
            found[new] = found.get(new, Fraction(0)) + weight / n_chances
    return found


@pytest.mark.parametrize("q", [[6, 4, 2], [2, 4, 6], [0, 12, 0], [4, 4, 4], [9, 3, 0]])
def test_accepting_and_rejecting_gives_the_models_own_distribution(q: list[int]) -> None:
    p = [6, 4, 2]
    found = outcome([p, [3, 3, 6]], [q], n_grid=72)
    first = [sum((w for new, w in found.items() if new[0] == id), Fraction(0)) for id in range(3)]
    assert first == [Fraction(n, 12) for n in p]
    # Whenever the guess passed, the token after it has the model's distribution too.
    passed = sum((w for new, w in found.items() if len(new) == 2), Fraction(0))
    second = [
        sum((w for new, w in found.items() if new[1:] == (id,)), Fraction(0)) for id in range(3)
    ]
    assert second == [passed * Fraction(n, 12) for n in [3, 3, 6]]


def test_an_acceptance_that_is_too_kind_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """The count above notices a draw from p where one from what p has more than q belongs."""
    from lookleft.generate import speculate as module

    def careless(target: Tensor, guess: Guess, chances: Tensor) -> list[int]:
        for i, id in enumerate(guess.ids):
            if float(chances[i]) * float(guess.probs[i, id]) >= float(target[i, id]):
                return [*guess.ids[:i], int(module.draw(target[i : i + 1], chances[i : i + 1]))]
        return [*guess.ids, int(module.draw(target[-1:], chances[-1:]))]

    monkeypatch.setitem(globals(), "accept", careless)
    with pytest.raises(AssertionError):
        test_accepting_and_rejecting_gives_the_models_own_distribution([2, 4, 6])


def test_two_guesses_in_a_row_are_each_judged_by_their_own_position() -> None:
    found = outcome([[6, 6, 0], [0, 6, 6], [12, 0, 0]], [[12, 0, 0], [0, 12, 0]], n_grid=12)
    half = Fraction(1, 2)
    assert found == {(1,): half, (0, 2): half**2, (0, 1, 0): half**2}


def run(runner: Any, asked: Request, guesser: Any) -> Any:
    *tokens, done = speculate(runner, asked, guesser, n_guesses=4)
    assert isinstance(done, Done)
    assert [event.id for event in tokens if isinstance(event, Token)] == done.answers[0].ids
    return done.answers[0]


@pytest.mark.parametrize("family", CONFIGS)
def test_greedy_text_stays_the_same_whoever_guesses(family: str) -> None:
    model, way = make(family), WAYS["greedy"]
    requests = [request(family, ids, way, max_new=14) for ids in PROMPTS]
    for asked, [expected] in zip(requests, answers(model, requests, way), strict=True):
        other = DraftModel(make(family, seed=9), GREEDY, asked.source)
        itself = DraftModel(make(family), GREEDY, asked.source)
        for guesser in (PromptLookup(), other, itself):
            found = run(model, asked, guesser)
            assert (found.ids, found.finish) == (expected.ids, expected.finish)
            assert found.log_probs == pytest.approx(expected.log_probs, abs=1e-9)


class CountingModel:
    """Notes how often a model reads."""

    def __init__(self, model: Any) -> None:
        self.model, self.config, self.n_passes = model, model.config, 0
        self.device = model.device

    def prefill(self, batch: Any, *, room: int) -> Any:
        self.n_passes += 1
        return self.model.prefill(batch, room=room)

    def extend(self, rows: Any, state: Any) -> Any:
        self.n_passes += 1
        return self.model.extend(rows, state)


def test_a_good_guesser_saves_passes() -> None:
    model = CountingModel(make("decoder"))
    asked = Request(PROMPTS[0], max_new=15)
    run(model, asked, DraftModel(make("decoder"), GREEDY))
    assert model.n_passes == 1 + 3  # the prompt, then five tokens at a time, the first was free
    alone = CountingModel(make("decoder"))
    run(alone, asked, DraftModel(make("decoder", seed=9), GREEDY))
    assert alone.n_passes > model.n_passes


def test_rules_are_kept_while_guessing() -> None:
    model, way = make("decoder"), WAYS["greedy-repetition"]
    asked = request("decoder", PROMPTS[3], way, max_new=14)
    [[expected]] = answers(model, [asked], way)
    assert run(model, asked, PromptLookup()).ids == expected.ids


def test_a_sampled_text_repeats_by_its_seed() -> None:
    model = make("decoder")
    texts = {
        seed: [
            run(
                model,
                Request(PROMPTS[0], max_new=12, method=Sample(1.5, seed=seed)),
                DraftModel(make("decoder", seed=9), Sample(1.5, seed=seed)),
            ).ids
            for _ in range(2)
        ]
        for seed in (1, 2)
    }
    assert texts[1][0] == texts[1][1] != texts[2][0] == texts[2][1]


def test_lookup_copies_what_followed_the_latest_place_that_ends_alike() -> None:
    lookup = PromptLookup(longest=2)
    assert lookup.guess([1, 2, 3, 9, 1, 2, 4, 1, 2], 3, 10).ids == [4, 1, 2]
    assert lookup.guess([7, 5, 6, 5], 3, 10).ids == [6, 5]  # one token agrees, two do not
    nothing = lookup.guess([1, 2, 3], 3, 10)
    assert (nothing.ids, nothing.probs.shape) == ([], (0, 10))


def test_greedy_is_a_distribution_that_is_certain() -> None:
    logits = torch.tensor([[0.0, 2.0, 1.0]])
    assert torch.equal(distribution(logits, GREEDY), one_hot(torch.tensor([1]), 3))


def test_what_cannot_be_guessed_is_refused() -> None:
    model = make("decoder")
    with pytest.raises(InputError, match="a beam cannot be speculated on"):
        list(speculate(model, Request((5,), method=Beam(2)), PromptLookup()))
    small = DraftModel(make("decoder", vocab=30), GREEDY)
    with pytest.raises(InputError, match="the draft model has 30 ids, the model 40"):
        list(speculate(model, Request((5, 6), max_new=5), small))


def test_a_draft_whose_ring_cannot_go_back_reads_again() -> None:
    asked = Request((8,), max_new=14)
    expected = run(make("decoder"), asked, PromptLookup()).ids
    assert run(make("decoder"), asked, DraftModel(make("window"), GREEDY)).ids == expected


def test_rules_are_asked_only_about_texts_that_can_be_written() -> None:
    """A grammar knows no answer for a text that it forbids, though a guess may lead there."""
    model = make("decoder")

    def allowed(text: Sequence[int]) -> list[int]:
        assert all(token < 20 for token in text[6:]), "this text was forbidden"
        return list(range(3, 20))

    way = choose(allowed=allowed)
    asked = request("decoder", PROMPTS[3], way, max_new=12)  # 20 comes again and again
    [[expected]] = answers(model, [asked], way)
    [[guessed]] = answers(model, [asked], replace(way, is_lookup=True))
    assert guessed.ids == expected.ids
