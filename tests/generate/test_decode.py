"""Decoding: the text that transformers writes, alone or in a batch, cached or recomputed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from torch import Tensor

from lookleft.bundle import Bundle
from lookleft.data.batch import Batch, pad_rows
from lookleft.errors import InputError
from lookleft.generate.decode import decode, generate_ids
from lookleft.generate.pick import greedy, make_sampler
from lookleft.models import build, presets

PROMPTS = [[5, 6, 7], [8], [9, 10, 11, 12, 13]]
EOS = 2
CONFIGS = {
    "decoder": presets.llama(40, 32, 2, 4, 2, 48),
    "translator": presets.tiny(40).model_copy(update={"max_len": 64}),
}


def make(family: str) -> Any:
    torch.manual_seed(0)
    model = build(CONFIGS[family], torch.Generator().manual_seed(3)).eval()
    with torch.no_grad():
        model.embedding.tokens.weight.mul_(3)  # so that texts differ and some end early
    return model


@pytest.mark.parametrize("family", CONFIGS)
def test_greedy_text_is_that_of_transformers(family: str, tmp_path: Path) -> None:
    model = make(family)
    Bundle(model).save(tmp_path)
    cls = transformers.LlamaForCausalLM if family == "decoder" else transformers.MarianMTModel
    theirs = cls.from_pretrained(tmp_path).eval()
    ours = generate_ids(model, PROMPTS, max_new=12, eos=EOS)
    rows = pad_rows(PROMPTS, side="left" if family == "decoder" else "right")
    with torch.no_grad():
        written = theirs.generate(
            input_ids=rows.ids,
            attention_mask=rows.is_token.long(),
            max_new_tokens=12,
            do_sample=False,
            eos_token_id=EOS,
            pad_token_id=0,
        )
    start = rows.shape[1] if family == "decoder" else 1
    expected = [row[: row.index(EOS)] if EOS in row else row for row in written[:, start:].tolist()]
    assert ours == expected
    assert len({tuple(row) for row in ours}) > 1  # the prompts do matter


@pytest.mark.parametrize("family", CONFIGS)
def test_neighbours_do_not_change_an_answer(family: str) -> None:
    model = make(family)
    together = generate_ids(model, PROMPTS, max_new=12, eos=EOS)
    assert together == [generate_ids(model, [p], max_new=12, eos=EOS)[0] for p in PROMPTS]


def test_cached_and_recomputed_text_are_the_same() -> None:
    model = make("decoder")
    text = list(PROMPTS[0])
    for _ in range(12):
        with torch.no_grad():
            text.append(int(model.score(Batch(pad_rows([text])))[0, -1].argmax()))
    assert generate_ids(model, [PROMPTS[0]], max_new=12, eos=None) == [text[3:]]


def test_ended_rows_repeat_the_end_and_the_loop_stops_when_all_have() -> None:
    script = iter([[1, 2], [2, 5], [9, 2], [9, 9]])

    def step(ids: Tensor) -> Tensor:
        return torch.nn.functional.one_hot(torch.tensor(next(script)), 10).double()

    columns = list(decode(step, step(torch.empty(0)), greedy, max_new=9, eos=2))
    assert torch.stack(columns).tolist() == [[1, 2], [2, 2]]


@pytest.mark.parametrize(
    ("options", "kept"),
    [
        ({}, {0, 1, 2, 3}),
        ({"top_k": 2}, {0, 1}),
        ({"top_p": 0.5}, {0}),
        ({"top_p": 0.51}, {0, 1}),
        ({"min_p": 0.4}, {0, 1}),
        ({"top_p": 1e-9}, {0}),
    ],
)
def test_samplers_keep_what_they_say(options: dict[str, Any], kept: set[int]) -> None:
    probs = torch.tensor([0.5, 0.25, 0.15, 0.1])
    pick = make_sampler(generator=torch.Generator().manual_seed(0), **options)
    drawn = pick(probs.log().expand(2000, 4))
    assert set(drawn.tolist()) == kept
    wanted = probs * torch.tensor([i in kept for i in range(4)])
    share = torch.bincount(drawn, minlength=4) / 2000
    assert (share - wanted / wanted.sum()).abs().max() < 0.05


def test_a_low_temperature_is_nearly_greedy_and_a_seed_repeats() -> None:
    logits = torch.randn(50, 20, generator=torch.Generator().manual_seed(1))
    cold = make_sampler(generator=torch.Generator().manual_seed(0), temperature=1e-4)
    assert torch.equal(cold(logits), greedy(logits))
    one, other = (make_sampler(generator=torch.Generator().manual_seed(5)) for _ in range(2))
    assert torch.equal(one(logits), other(logits))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"temperature": float("nan")}, "temperature=nan"),
        ({"temperature": 0.0}, "0 is `greedy`"),
        ({"top_p": 0.0}, "top_p=0.0"),
        ({"top_k": -1}, "top_k=-1"),
        ({"min_p": 1.5}, "min_p=1.5"),
    ],
)
def test_bad_sampling_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        make_sampler(generator=torch.Generator(), **options)


def test_bad_requests_are_refused() -> None:
    model = make("decoder")
    with pytest.raises(InputError, match="max_new=0"):
        generate_ids(model, PROMPTS, max_new=0, eos=EOS)
    with pytest.raises(InputError, match="prompt 1 is empty"):
        generate_ids(model, [[5], []], max_new=3, eos=EOS)
