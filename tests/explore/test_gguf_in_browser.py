"""A real language model from a GGUF file in the page: pick a head, watch it write."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from explore.browser import needs, run_part, serving, write_facts
from torch import Tensor
from weights import SMOLLM2, packaged

from lookleft.bundle import Bundle
from lookleft.data.batch import Batch, as_rows
from lookleft.explore.service import Explorer
from lookleft.models import DecoderOnly

MISSING = needs()
pytestmark = [pytest.mark.slow, pytest.mark.skipif(MISSING is not None, reason=str(MISSING))]

PROMPT = "Once upon a"
N_NEW = 24  # as many as the page asks for
LAYER, HEAD = 3, 4


@torch.no_grad()
def written(bundle: Bundle, ids: list[int]) -> list[int]:
    """What the model writes after these ids: every token from a fresh pass over all before it."""
    assert isinstance(bundle.network, DecoderOnly)
    for _ in range(N_NEW):
        logits = bundle.network.score(Batch(as_rows(torch.tensor([ids]))))[0, -1]
        ids = [*ids, int(logits.argmax())]
    return ids


@torch.no_grad()
def weights_by_hand(bundle: Bundle, ids: list[int]) -> Tensor:
    """Attention weights of one head: projections, rotary turns and a softmax, nothing of ours."""
    network = bundle.network
    assert isinstance(network, DecoderOnly)
    attention = network.get_submodule(f"decoder.layers.{LAYER}.self_attention")
    seen: list[Tensor] = []
    hook = attention.to_q.register_forward_hook(lambda _, inputs, __: seen.append(inputs[0]))
    network.score(Batch(as_rows(torch.tensor([ids]))))
    hook.remove()
    config, x = network.config, seen[0][0]  # (T, D)
    width, group = config.head_dim, HEAD * config.kv_heads // config.n_heads
    theta = config.positions.theta  # type: ignore[union-attr]
    angle = torch.arange(len(ids))[:, None] * theta ** -(torch.arange(0, width, 2) / width)

    def turned(matrix: Tensor, head: int) -> Tensor:
        one, two = (x @ matrix[head * width : (head + 1) * width].T).chunk(2, -1)  # (T, K/2)
        return torch.cat(
            (one * angle.cos() - two * angle.sin(), two * angle.cos() + one * angle.sin()), -1
        )

    q, k = turned(attention.to_q.weight, HEAD), turned(attention.to_k.weight, group)  # (T, K)
    scores = q @ k.T / math.sqrt(width)
    return scores.masked_fill(torch.ones_like(scores).triu(1).bool(), -math.inf).softmax(-1)


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A server with the model, and what it should write."""
    explorer = Explorer("lookleft explain model.gguf")
    explorer.load(packaged(*SMOLLM2))
    bundle = explorer.model("main").bundle
    assert bundle.tokenizer is not None
    ids = written(bundle, bundle.encode(PROMPT))
    pieces = [bundle.tokenizer.decode([id]).strip() for id in ids]
    with serving(explorer) as url:
        facts = {
            "url": url,
            "prompt": PROMPT,
            "written": pieces,
            "layer": LAYER,
            "head": HEAD,
            "weights": weights_by_hand(bundle, ids[:-1]).tolist(),
        }
        yield write_facts(tmp_path_factory.mktemp("gguf") / "prepared.json", facts)


def test_a_head_of_a_real_language_model_is_picked_and_watched(prepared: Path) -> None:
    run_part("gguf", prepared)
