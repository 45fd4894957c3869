"""The page in a real browser, against numbers that plain PyTorch computes here.

What is clicked, typed and read stands in web/e2e; this file starts the server it talks to.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from explore.browser import needs, run_part, serving, write_facts
from torch import Tensor

from lookleft.bundle import Bundle
from lookleft.config import EncoderDecoderConfig
from lookleft.explore.examples import Example
from lookleft.explore.lesson import TraceRequest
from lookleft.explore.page import Page, weights_table
from lookleft.explore.service import Explorer
from lookleft.models import DecoderOnly, EncoderDecoder, EncoderOnly, presets
from lookleft.text.tokenizer import Tokenizer

SOURCE, TARGET = "I am going home.", "मैं घर जा रहा हूँ।"
TEXTS = [SOURCE, TARGET, "The house is here.", "घर यहाँ है ।", "She is going.", "वह जा रही है ।"] * 4
LAYER, HEAD = 0, 1


MISSING = needs()
pytestmark = [pytest.mark.slow, pytest.mark.skipif(MISSING is not None, reason=str(MISSING))]


def translator(tokenizer: Tokenizer, mask: str) -> Bundle:
    """A small translator with random weights, the same for every mask."""
    torch.manual_seed(5)
    config = EncoderDecoderConfig(
        vocab_size=len(tokenizer),
        d_model=32,
        n_heads=2,
        d_ff=32,
        n_encoder_layers=2,
        n_decoder_layers=2,
        mask=mask,  # type: ignore[arg-type]
        start_id=tokenizer.specials.require("bos"),
    )
    network = EncoderDecoder(config)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.mul_(3)  # or every weight would be nearly the same
    return Bundle(network.eval(), tokenizer, tokenizer.specials, ("en", "hi"))


def all_models() -> tuple[Explorer, Explorer]:
    """A translator and the same without its mask; a model that only writes and one that reads."""
    tokenizer = Tokenizer.train(TEXTS, kind="bpe", vocab_size=330)
    torch.manual_seed(6)
    size = len(tokenizer)
    writer = DecoderOnly(presets.gpt(size, d_model=32, n_layers=1, n_heads=2)).eval()
    reader = EncoderOnly(presets.bert(size, d_model=32, n_layers=1, n_heads=2)).eval()
    translators = Explorer("lookleft explain runs/en-hi")
    translators.add(translator(tokenizer, "causal"), "main")
    translators.add(translator(tokenizer, "none"), "cheater")
    translators.models["main"].examples = [Example(SOURCE, TARGET)]
    others = Explorer("lookleft explain runs/writer")
    others.add(Bundle(writer, tokenizer, tokenizer.specials), "main")
    others.add(Bundle(reader, tokenizer, tokenizer.specials), "reader")
    return translators, others


def by_hand(explorer: Explorer, is_masked: bool) -> tuple[Tensor, Tensor]:
    """Scores and weights of one head: projections, a product and a softmax, nothing of ours."""
    network = explorer.models["main" if is_masked else "cheater"].bundle.network
    attention = network.get_submodule(f"decoder.layers.{LAYER}.self_attention")
    seen: list[Tensor] = []
    hook = attention.to_q.register_forward_hook(lambda _, inputs, __: seen.append(inputs[0]))
    try:
        model = "main" if is_masked else "cheater"
        explorer.trace(TraceRequest(model=model, source=SOURCE, target=TARGET))
    finally:
        hook.remove()
    x = seen[0][0]  # the training pass comes first. (T, D)
    width = x.size(1) // attention.n_heads
    here = slice(HEAD * width, (HEAD + 1) * width)
    q = (x @ attention.to_q.weight.T + attention.to_q.bias)[:, here]  # (T, K)
    k = (x @ attention.to_k.weight.T + attention.to_k.bias)[:, here]
    scores = q @ k.T / math.sqrt(width)  # (T, T)
    future = torch.ones_like(scores, dtype=torch.bool).triu(1)
    masked = scores.masked_fill(future, -math.inf) if is_masked else scores
    return scores, masked.softmax(-1)


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A running server, a one-file page, and the file that tells the browser's side about them."""
    folder = tmp_path_factory.mktemp("page")
    explorer, others = all_models()
    with torch.no_grad():
        scores, weights = by_hand(explorer, is_masked=True)
        _, unmasked = by_hand(explorer, is_masked=False)
    trace = explorer.trace(TraceRequest(source=SOURCE, target=TARGET))
    data = explorer.file_data(trace.id, "all", "decoder_self", 0, 0)
    file = folder / "page.html"
    file.write_text(Page().one_file(data, weights_table(trace)), encoding="utf-8")
    others.models["main"].bundle.save(folder / "writer")
    explorer.known = {"runs/writer": folder / "writer", "runs/gone": folder / "gone"}
    with serving(explorer) as url, serving(others) as others_url:
        facts = {
            "url": url,
            "others": others_url,
            "file": str(file),
            "scores": scores.tolist(),
            "weights": weights.tolist(),
            "unmasked": unmasked.tolist(),
            "source": SOURCE,
            "target": TARGET,
        }
        yield write_facts(folder / "prepared.json", facts)


@pytest.mark.parametrize("part", ["values", "states", "keyboard", "access", "file"])
def test_the_page_shows_what_the_model_computed(part: str, prepared: Path) -> None:
    run_part(part, prepared)
