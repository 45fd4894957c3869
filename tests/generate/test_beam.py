"""Beam search: what transformers finds, what trying everything finds, and never less."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest
import torch
from generate.tiny import PROMPTS, WAYS, answers, make, request, texts
from interop.hf_cases import DECODERS, ENCODER_DECODERS, Case

from lookleft.config import EncoderDecoderConfig
from lookleft.data.batch import Batch, pad_rows
from lookleft.errors import InputError
from lookleft.generate.methods import Way, penalty_of
from lookleft.generate.request import Answer, Beam, Power, Request, Wu
from lookleft.generate.scheduler import answer_all
from lookleft.interop.hf import load_hf

CASES = {case.name: case for case in DECODERS + ENCODER_DECODERS}
ENDS = (2, 30)
N_NEW = 8


def theirs(model: Any, is_decoder: bool, **options: Any) -> tuple[list[list[int]], list[float]]:
    """What transformers writes for PROMPTS in one padded batch, up to the end token."""
    rows = pad_rows(PROMPTS, side="left" if is_decoder else "right")
    for forced in ("forced_eos_token_id", "forced_bos_token_id"):
        setattr(model.generation_config, forced, None)
    with torch.no_grad():
        found = model.generate(
            input_ids=rows.ids,
            attention_mask=rows.is_token.long(),
            max_new_tokens=N_NEW,
            eos_token_id=list(ENDS),
            pad_token_id=0,
            do_sample=False,
            return_dict_in_generate=True,
            output_scores=True,
            **options,
        )
    start = rows.shape[1] if is_decoder else 1
    cut = [
        list(itertools.takewhile(lambda id: id not in ENDS, row))
        for row in found.sequences[:, start:].tolist()
    ]
    scores = found.sequences_scores.tolist() if options.get("num_beams", 1) > 1 else []
    return cut, scores


def ours(model: Any, method: Any) -> list[Answer]:
    """The same from us, all answers in one list."""
    is_translator = isinstance(model.config, EncoderDecoderConfig)
    requests = [
        Request(
            prompt=() if is_translator else ids,
            source=ids if is_translator else None,
            max_new=N_NEW,
            ends=ENDS,
            method=method,
        )
        for ids in PROMPTS
    ]
    found = {event.ticket: event.answers for event in answer_all(model, requests)}
    return [answer for ticket in range(len(PROMPTS)) for answer in found[ticket]]


@pytest.mark.filterwarnings("ignore")  # what transformers says about options is not ours
@pytest.mark.parametrize("name", ["gpt2", "llama", "mistral-window", "marian", "bart", "t5"])
def test_tokens_and_scores_are_those_of_transformers(name: str, tmp_path: Path) -> None:
    case: Case = CASES[name]
    original = case.build()
    original.save_pretrained(tmp_path)
    model = load_hf(tmp_path)
    is_decoder = case in DECODERS
    greedy, _ = theirs(original, is_decoder)
    assert [answer.ids for answer in ours(model, WAYS["greedy"].method)] == greedy
    for power in (1.0, 0.0, -1.0):
        for stop, early in (("exact", "never"), ("estimate", False)):
            ids, scores = theirs(
                original,
                is_decoder,
                num_beams=4,
                num_return_sequences=3,
                length_penalty=power,
                early_stopping=early,
            )
            found = ours(model, Beam(4, Power(power), 3, stop))  # type: ignore[arg-type]
            assert [answer.ids for answer in found] == ids
            assert [answer.score for answer in found] == pytest.approx(scores, abs=1e-4)


def everything(
    model: Any, prompt: tuple[int, ...], penalty: Any, vocab: int, max_new: int
) -> list[tuple[float, list[int]]]:
    """Every text that ends, or fills its room, with its score; best first. By brute force."""
    found = []
    for length in range(1, max_new + 1):
        for tail in itertools.product(range(vocab), repeat=length):
            is_ended = tail[-1] == 2
            if 2 in tail[:-1] or not (is_ended or length == max_new):
                continue
            with torch.no_grad():
                logits = model.score(Batch(pad_rows([[*prompt, *tail]])))[0]
            chosen = logits[len(prompt) - 1 : -1].log_softmax(-1)[range(length), list(tail)]
            found.append(
                (float(chosen.sum()) / penalty(length), list(tail[:-1] if is_ended else tail))
            )
    return sorted(found, reverse=True)


@pytest.mark.parametrize(
    "penalty", [Power(0.0), Power(1.0), Power(2.5), Power(-1.0), Wu(0.6), Wu(3.0)]
)
def test_a_beam_as_wide_as_the_space_finds_what_trying_everything_finds(penalty: Any) -> None:
    vocab, max_new = 4, 4
    model = make("decoder", vocab=vocab, seed=8)
    expected = everything(model, (3, 1), penalty, vocab, max_new)
    width = vocab**max_new
    asked = Request((3, 1), max_new=max_new, ends=(2,), method=Beam(width, penalty, n_best=10))
    [done] = answer_all(model, [asked], max_rows=width)
    assert [answer.ids for answer in done.answers] == [ids for _, ids in expected[:10]]
    assert [a.score for a in done.answers] == pytest.approx([s for s, _ in expected[:10]], abs=1e-9)


@pytest.mark.parametrize("penalty", [Power(1.0), Wu(2.0)])
def test_the_exact_stop_never_loses_to_a_search_that_goes_on_to_the_end(penalty: Any) -> None:
    """Asked for more answers the same beam must run longer: its best stays the same."""
    is_missed_by_estimate = False
    for seed in range(4):
        model = make("decoder", seed=seed)
        found = {}
        for kind, method in {
            "exact": Beam(3, penalty),
            "longer": Beam(3, penalty, n_best=3),
            "estimate": Beam(3, penalty, stop="estimate"),
        }.items():
            way = Way(method)
            done = answers(model, [request("decoder", p, way, max_new=12) for p in PROMPTS], way)
            found[kind] = [(each[0].ids, each[0].score) for each in done]
        assert [ids for ids, _ in found["exact"]] == [ids for ids, _ in found["longer"]]
        for (_, best), (_, other) in zip(found["exact"], found["estimate"], strict=True):
            assert best >= other - 1e-12
            is_missed_by_estimate |= best > other + 1e-9
    assert is_missed_by_estimate  # so the exact stop is worth its steps


def test_a_beam_of_one_is_greedy() -> None:
    for family in ("decoder", "translator"):
        for penalty in (Power(1.0), Power(3.0), Wu(2.0)):
            model, way = make(family), Way(Beam(1, penalty))
            requests = [request(family, ids, way, max_new=15) for ids in PROMPTS]
            greedy = [request(family, ids, WAYS["greedy"], max_new=15) for ids in PROMPTS]
            assert texts(answers(model, requests, way)) == texts(
                answers(model, greedy, WAYS["greedy"])
            )


def test_n_best_come_sorted_differ_and_carry_their_log_probabilities() -> None:
    way = WAYS["beam-n-best-wu"]
    for each in answers(make("decoder"), [request("decoder", ids, way) for ids in PROMPTS], way):
        assert [a.score for a in each] == sorted([a.score or 0 for a in each], reverse=True)
        assert len({tuple(answer.ids) for answer in each}) == len(each) == 3
        for answer in each:
            assert answer.log_probs is not None
            n_written = len(answer.ids) + (answer.finish == "end")
            assert len(answer.log_probs) == n_written
            assert answer.score == pytest.approx(sum(answer.log_probs) / Wu(0.6)(n_written))


def test_penalties_are_the_two_conventions_by_name() -> None:
    assert penalty_of("power:2")(3) == 9
    assert penalty_of("wu:2")(7) == 4
    assert penalty_of("wu:0.6") == Wu(0.6)
    for wrong in ("power", "wu:", "len:1", "1.0", "wu:x"):
        with pytest.raises(InputError, match="give power:A"):
            penalty_of(wrong)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"width": 0}, "width 0"),
        ({"width": 2, "n_best": 3}, "n_best=3 of a beam of 2"),
        ({"length_penalty": Power(float("nan"))}, "nan"),
    ],
)
def test_impossible_beams_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Beam(**options)
