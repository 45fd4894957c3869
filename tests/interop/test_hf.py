"""Equal to transformers: random tiny models of every class we read, both ways, full and cached."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from interop.hf_cases import BERT, DECODERS, ENCODER_DECODERS, ENCODERS, Case
from torch import Tensor

import lookleft
from lookleft.audit.precision import float64_throughout
from lookleft.bundle import Bundle
from lookleft.config import DecoderOnlyConfig, Relative, Rotary
from lookleft.data.batch import Batch, Rows, as_rows, pad_rows
from lookleft.errors import ConfigError
from lookleft.interop.hf import FAMILIES, family_of
from lookleft.models import build, presets
from lookleft.tensors import read_tensors, write_tensors

PRECISIONS = [
    pytest.param(torch.float32, 1e-5, id="float32"),
    pytest.param(torch.float64, 1e-10, id="float64"),
]
TEXTS = [[5, 9, 11, 7, 30, 8, 12, 44, 3, 19, 21], [6, 50, 13], [17, 4, 33, 40, 9, 9, 10]]
SOURCES = [[8, 14, 3], [5, 6, 7, 9, 12, 31, 22, 4], [20]]


def by_name(case: Case) -> str:
    return case.name


@pytest.fixture
def original(
    request: pytest.FixtureRequest, tmp_path: Path
) -> Callable[[Case, torch.dtype], tuple[Any, Bundle]]:
    """A model of transformers and what lookleft makes of its folder, both in one precision."""

    def make(case: Case, dtype: torch.dtype) -> tuple[Any, Bundle]:
        if dtype == torch.float64:
            # Their classes cast to float32 inside; the whole comparison runs without that.
            context = float64_throughout()
            context.__enter__()
            request.addfinalizer(lambda: context.__exit__(None, None, None))
        model = case.build().to(dtype)
        model.save_pretrained(tmp_path / "theirs")
        return model, lookleft.load(tmp_path / "theirs", dtype=dtype)

    return make


def close(ours: Tensor, theirs: Tensor, is_token: Tensor, tolerance: float) -> None:
    """Equal at every real token, relative to the size of the numbers."""
    scale = max(1.0, float(theirs[is_token].abs().max()))
    torch.testing.assert_close(
        ours[is_token] / scale, theirs[is_token] / scale, rtol=0, atol=tolerance
    )


def their_inputs(rows: Rows) -> dict[str, Tensor]:
    return {
        "input_ids": rows.ids,
        "attention_mask": rows.is_token.long(),
        "position_ids": rows.pos,
    }


@pytest.mark.parametrize(("dtype", "tolerance"), PRECISIONS)
@pytest.mark.parametrize("case", DECODERS, ids=by_name)
@torch.no_grad()
def test_decoders_give_the_logits_of_transformers(
    case: Case, dtype: torch.dtype, tolerance: float, original: Any
) -> None:
    theirs, bundle = original(case, dtype)
    for side in ("left", "right"):
        rows = pad_rows(TEXTS, side=side)
        expected = theirs(**their_inputs(rows)).logits
        close(bundle.network.score(Batch(rows)), expected, rows.is_token, tolerance)


@pytest.mark.parametrize(("dtype", "tolerance"), PRECISIONS)
@pytest.mark.parametrize("case", DECODERS, ids=by_name)
@torch.no_grad()
def test_cached_steps_of_decoders_follow_those_of_transformers(
    case: Case, dtype: torch.dtype, tolerance: float, original: Any
) -> None:
    theirs, bundle = original(case, dtype)
    rows = pad_rows(TEXTS, side="left")
    next_ids = torch.tensor([[4, 8, 15, 16, 23, 42], [9, 9, 9, 3, 5, 6], [7, 1, 8, 2, 8, 1]])
    out = theirs(**their_inputs(rows), use_cache=True)
    logits, state = bundle.network.prefill(Batch(rows), room=next_ids.size(1))
    everyone = torch.ones(len(TEXTS), dtype=torch.bool)
    close(logits, out.logits[:, -1], everyone, tolerance)
    mask = rows.is_token.long()
    for ids in next_ids.T:
        mask = torch.cat((mask, torch.ones_like(mask[:, :1])), 1)
        out = theirs(
            input_ids=ids[:, None],
            attention_mask=mask,
            position_ids=mask.sum(1, keepdim=True) - 1,
            past_key_values=out.past_key_values,
            use_cache=True,
        )
        close(bundle.network.step(ids, state), out.logits[:, -1], everyone, tolerance)


def sides(case: Case) -> tuple[Rows, Rows]:
    """Source and decoder input, padded as transformers pads encoder-decoders: at the end."""
    return pad_rows(SOURCES), pad_rows(
        [[case.options["decoder_start_token_id"], *t] for t in TEXTS]
    )


@pytest.mark.parametrize(("dtype", "tolerance"), PRECISIONS)
@pytest.mark.parametrize("case", ENCODER_DECODERS, ids=by_name)
@torch.no_grad()
def test_encoder_decoders_give_the_logits_of_transformers(
    case: Case, dtype: torch.dtype, tolerance: float, original: Any
) -> None:
    theirs, bundle = original(case, dtype)
    source, rows = sides(case)
    expected = theirs(
        input_ids=source.ids,
        attention_mask=source.is_token.long(),
        decoder_input_ids=rows.ids,
        decoder_attention_mask=rows.is_token.long(),
    ).logits
    ours = bundle.network.score(Batch(rows, source=source))
    close(ours, expected, rows.is_token, tolerance)


@pytest.mark.parametrize(("dtype", "tolerance"), PRECISIONS)
@pytest.mark.parametrize("case", ENCODER_DECODERS, ids=by_name)
@torch.no_grad()
def test_cached_steps_of_encoder_decoders_follow_those_of_transformers(
    case: Case, dtype: torch.dtype, tolerance: float, original: Any
) -> None:
    theirs, bundle = original(case, dtype)
    source, _ = sides(case)
    start = case.options["decoder_start_token_id"]
    assert bundle.network.config.start_id == start
    ids = torch.full((len(SOURCES),), start)
    logits, state = bundle.network.prefill(Batch(as_rows(ids[:, None]), source=source), room=6)
    encoded = theirs.get_encoder()(source.ids, attention_mask=source.is_token.long())
    past, everyone = None, torch.ones(len(SOURCES), dtype=torch.bool)
    for t in range(6):
        out = theirs(
            encoder_outputs=encoded,
            attention_mask=source.is_token.long(),
            decoder_input_ids=ids[:, None],
            past_key_values=past,
            use_cache=True,
        )
        past = out.past_key_values
        close(logits, out.logits[:, -1], everyone, tolerance)
        ids = torch.tensor([7 + t, 30 - t, 12])
        logits = bundle.network.step(ids, state)


@pytest.mark.parametrize(("dtype", "tolerance"), PRECISIONS)
@torch.no_grad()
def test_bert_gives_the_logits_of_transformers(
    dtype: torch.dtype, tolerance: float, original: Any
) -> None:
    theirs, bundle = original(ENCODERS[0], dtype)
    rows = pad_rows(TEXTS)
    types = torch.randint(0, 2, rows.shape, generator=torch.Generator().manual_seed(1))
    rows = Rows(rows.ids, rows.is_token, rows.pos, types=types)
    expected = theirs(rows.ids, attention_mask=rows.is_token.long(), token_type_ids=types).logits
    close(bundle.network.score(Batch(rows)), expected, rows.is_token, tolerance)


@torch.no_grad()
def test_a_bert_without_its_head_gives_the_hidden_states_of_transformers(tmp_path: Path) -> None:
    theirs = Case("bert-bare", "BertModel", BERT).build()
    theirs.save_pretrained(tmp_path)
    rows = pad_rows(TEXTS)
    expected = theirs(rows.ids, attention_mask=rows.is_token.long()).last_hidden_state
    ours = lookleft.load(tmp_path).network.states(Batch(rows))
    close(ours, expected, rows.is_token, 1e-5)


def batch_for(model: Any, case: Case) -> Batch:
    if case in ENCODER_DECODERS:
        source, rows = sides(case)
        return Batch(rows, source=source)
    return Batch(pad_rows(TEXTS))


@pytest.mark.parametrize("case", [*DECODERS, *ENCODER_DECODERS, *ENCODERS], ids=by_name)
@torch.no_grad()
def test_an_exported_folder_gives_the_same_logits_in_transformers(
    case: Case, tmp_path: Path
) -> None:
    case.build().save_pretrained(tmp_path / "theirs")
    bundle = lookleft.load(tmp_path / "theirs")
    written = bundle.save(tmp_path / "ours", layout="hf")
    assert written in {family.model_type for family in FAMILIES}
    theirs = getattr(transformers, case.model).from_pretrained(tmp_path / "ours").eval()
    batch = batch_for(bundle.network, case)
    ours = bundle.network.score(batch)
    if batch.source is None:
        inputs = (
            their_inputs(batch.inputs)
            if case in DECODERS
            else {
                "input_ids": batch.inputs.ids,
                "attention_mask": batch.inputs.is_token.long(),
            }
        )
    else:
        inputs = {
            "input_ids": batch.source.ids,
            "attention_mask": batch.source.is_token.long(),
            "decoder_input_ids": batch.inputs.ids,
        }
    close(ours, theirs(**inputs).logits, batch.inputs.is_token, 1e-5)


@pytest.mark.parametrize(
    ("config", "model_type"),
    [
        (presets.tiny(40), "marian"),
        (presets.gpt(40, 32, 2, 4, 64), "gpt2"),
        (presets.llama(40, 32, 2, 4, 2, 48), "llama"),
        (presets.bert(40, 32, 2, 4, 64), "bert"),
    ],
    ids=["tiny", "gpt", "llama", "bert"],
)
@torch.no_grad()
def test_presets_can_be_exported_and_read_back(
    config: Any, model_type: str, tmp_path: Path
) -> None:
    assert family_of(config).model_type == model_type
    network = build(config, torch.Generator().manual_seed(0)).eval()
    assert Bundle(network).save(tmp_path) == model_type
    again = lookleft.load(tmp_path).network
    rows = pad_rows([[3, 4, 5], [6]])
    batch = Batch(rows, source=rows)
    assert torch.equal(again.score(batch), network.score(batch))


@torch.no_grad()
def test_a_bert_with_the_norm_names_of_tensorflow_is_the_same_bert(tmp_path: Path) -> None:
    ENCODERS[0].build().save_pretrained(tmp_path)
    batch = Batch(pad_rows(TEXTS))
    expected = lookleft.load(tmp_path).network.score(batch)
    file = tmp_path / "model.safetensors"
    old = {"LayerNorm.weight": "LayerNorm.gamma", "LayerNorm.bias": "LayerNorm.beta"}
    tensors = read_tensors(file)
    for new_name, old_name in old.items():
        tensors = {name.replace(new_name, old_name): t for name, t in tensors.items()}
    assert any(name.endswith(".gamma") for name in tensors)
    write_tensors(file, tensors)
    assert torch.equal(lookleft.load(tmp_path).network.score(batch), expected)


@torch.no_grad()
def test_a_bart_saved_without_its_head_is_read_as_transformers_reads_it(tmp_path: Path) -> None:
    bart = next(case for case in ENCODER_DECODERS if case.name == "bart")
    bart.build().model.save_pretrained(tmp_path)
    assert "final_logits_bias" not in read_tensors(tmp_path / "model.safetensors")
    model = transformers.BartForConditionalGeneration.from_pretrained(tmp_path).eval()
    ids, source = torch.tensor([[2, 5, 6]]), torch.tensor([[3, 4]])
    ours = lookleft.load(tmp_path).network.score(Batch(as_rows(ids), source=as_rows(source)))
    theirs = model(input_ids=source, decoder_input_ids=ids).logits
    close(ours, theirs, torch.ones_like(ids, dtype=torch.bool), 1e-5)


@torch.no_grad()
def test_a_network_no_class_expresses_is_saved_in_our_own_layout(tmp_path: Path) -> None:
    config = DecoderOnlyConfig(
        vocab_size=40, d_model=32, n_layers=2, positions=Relative(), window=3
    )
    network = build(config, torch.Generator().manual_seed(0)).eval()
    with pytest.raises(ConfigError, match=r"gpt2: .*relative"):
        Bundle(network).save(tmp_path / "hf", layout="hf")
    assert Bundle(network).save(tmp_path / "own") == "lookleft"
    again = lookleft.load(tmp_path / "own").network
    assert again.config == config
    batch = Batch(pad_rows([[3, 4, 5], [6]]))
    assert torch.equal(again.score(batch), network.score(batch))


def test_a_model_that_peeks_is_not_exported_as_one_that_does_not() -> None:
    config = presets.gpt(40, 32, 2, 4, 64).model_copy(update={"mask": "none"})
    with pytest.raises(ConfigError, match="mask='none' would become 'causal'"):
        family_of(config)


@pytest.mark.parametrize(
    ("case", "change", "message"),
    [
        (DECODERS[0], {"model_type": "mamba"}, "model_type='mamba' is not known"),
        (DECODERS[0], {"n_embd": None}, "wrong kind"),
        (DECODERS[0], {"n_embd": 33}, "d_model=33 is no multiple of n_heads=4"),
        (DECODERS[0], {"n_embd": 1 << 40}, "less than or equal to 65536"),
        (DECODERS[0], {"n_layer": 5}, "has no tensor .transformer.h.2"),
        (DECODERS[0], {"vocab_size": 99}, r"\(61, 32\)"),
        (DECODERS[0], {"scale_attn_by_inverse_layer_idx": True}, "is not supported"),
        (DECODERS[0], {"activation_function": "mish"}, "activation 'mish' is not known"),
        (DECODERS[0], {"activation_function": ["relu"]}, r"activation \['relu'\] is not known"),
        (DECODERS[0], {"n_layer": 0}, r"^[^:]*config\.json is no valid \w+: n_layers=0: "),
        (DECODERS[2], {"rope_parameters": {"rope_type": "yarn"}}, "rope_type='yarn'"),
        (DECODERS[2], {"rope_parameters": {"rope_type": "llama3"}}, "has no 'factor'"),
        (ENCODERS[0], {"is_decoder": True}, "is_decoder=True is not supported"),
    ],
)
def test_a_config_that_lies_is_refused_in_one_sentence(
    case: Case, change: dict[str, Any], message: str, tmp_path: Path
) -> None:
    case.build().save_pretrained(tmp_path)
    path = tmp_path / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(lookleft.LookleftError, match=message):
        lookleft.load(tmp_path)


def test_rotary_models_with_other_blocks_name_what_would_change() -> None:
    config = DecoderOnlyConfig(vocab_size=40, d_model=32, positions=Rotary())
    with pytest.raises(ConfigError, match=r"llama: .*gated=False would become True"):
        family_of(config)
