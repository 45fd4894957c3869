"""The zoo builds strangers' classes small, audits them, and publishes nothing unread."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from torch import Tensor, nn

from lookleft.audit.zoo import build_tiny, class_names, from_json, sweep, to_json, to_markdown
from lookleft.audit.zoo.build import tiny_config
from lookleft.audit.zoo.design import BY_DESIGN, FAULTS, anchor, explained
from lookleft.audit.zoo.rules import WINDOW, small_value
from lookleft.audit.zoo.special import NEEDS_MORE, SPECIAL
from lookleft.errors import InputError

DOCS = Path(__file__).parents[2] / "docs"
CAUSAL = (
    "BambaForCausalLM",
    "DeepseekV3ForCausalLM",
    "Gemma3nForCausalLM",
    "GPT2LMHeadModel",
    "GPTNeoForCausalLM",
    "JambaForCausalLM",
    "Llama4ForCausalLM",
    "MambaForCausalLM",
    "MixtralForCausalLM",
    "Qwen2ForCausalLM",
    "RwkvForCausalLM",
)
SEQ2SEQ = ("EncoderDecoderModel", "MarianMTModel", "T5ForConditionalGeneration")


def logits(model: Any, ids: Tensor) -> Tensor:
    more = {"decoder_input_ids": ids} if model.config.is_encoder_decoder else {}
    with torch.no_grad():
        out: Tensor = model(input_ids=ids, **more).logits
    return out


@pytest.mark.parametrize("name", CAUSAL + SEQ2SEQ)
def test_a_tiny_model_answers_with_lively_logits(name: str) -> None:
    model = build_tiny(name)
    ids = torch.randint(3, 90, (2, 11), generator=torch.Generator().manual_seed(0))
    out = logits(model, ids)  # (B, T, V)
    assert out.shape == (2, 11, 99)
    assert bool(out.isfinite().all())
    assert float((out[:, 1:] - out[:, :-1]).std()) > 0.05  # positions are told apart
    assert sum(p.numel() for p in model.parameters()) < 300_000
    assert not model.training


def test_the_seed_decides_the_weights() -> None:
    ids = torch.arange(3, 14)[None]
    first, again, other = (logits(build_tiny("GPT2LMHeadModel", seed=s), ids) for s in (0, 0, 1))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_no_weight_stays_zero() -> None:
    model = build_tiny("Qwen2MoeForCausalLM")
    idle = [name for name, p in model.named_parameters() if bool((p == 0).any())]
    assert idle == []


def test_one_layer_of_each_kind_is_kept() -> None:
    config = tiny_config(transformers.ExaoneMoeConfig)
    kinds = list(zip(config.layer_types, config.mlp_layer_types, strict=True))
    assert kinds == [
        ("sliding_attention", "dense"),
        ("sliding_attention", "sparse"),
        ("full_attention", "sparse"),
    ]


def test_windows_are_switched_on_and_shrunk() -> None:
    config = tiny_config(transformers.Qwen2Config)
    assert config.sliding_window == WINDOW
    assert set(config.layer_types) == {"sliding_attention", "full_attention"}


def test_rules_shrink_known_fields_and_leave_the_rest() -> None:
    assert small_value("hidden_size", 4096) == 32
    assert small_value("num_hidden_layers", 1) == 1  # already smaller
    assert small_value("eos_token_id", [128001, 128008]) == 2
    assert small_value("rms_norm_eps", 1e-6) == 1e-6
    assert small_value("tie_word_embeddings", True) is True
    assert small_value("q_lora_rank", None) is None  # switched off stays off
    assert small_value("head_dim", None) == 8  # left open is filled in


def test_an_unknown_class_is_refused_by_name() -> None:
    with pytest.raises(InputError, match="NoSuchModel"):
        build_tiny("NoSuchModel")


def test_a_class_that_needs_more_than_ids_says_what() -> None:
    with pytest.raises(InputError, match="frames of audio"):
        build_tiny("VoxtralRealtimeForConditionalGeneration")


def test_the_zoo_knows_more_than_a_hundred_classes() -> None:
    assert len(class_names()) > 150


def test_every_exception_names_a_class_and_a_reason() -> None:
    known = set(class_names())
    assert set(NEEDS_MORE) <= known
    assert all(NEEDS_MORE.values())
    for name, special in SPECIAL.items():
        assert hasattr(transformers, name) or _is_part(name), name
        assert special.reason
        assert special.values or special.plan, name
    for entry in BY_DESIGN:
        assert set(entry.classes) <= known
        assert entry.checks
        assert len(entry.reason) > 20
    for fault in FAULTS:
        assert set(fault.classes) <= known
        assert fault.checks


def _is_part(name: str) -> bool:
    """Some configurations are only reachable as a part of another one."""
    owners = {getattr(transformers, owner).config_class.__name__ for owner in class_names()}
    return name in owners


def test_nothing_is_both_meant_and_a_fault() -> None:
    for fault in FAULTS:
        for name in fault.classes:
            assert not any(explained(name, check) for check in fault.checks), name


class MixesTime(nn.Module):
    """A norm that also hands every position a little of all others."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: Tensor) -> Tensor:
        mixed: Tensor = self.inner(x) + x.mean(1, keepdim=True)
        return mixed


def build_or_break(name: str) -> nn.Module:
    if name == "Broken":
        model: Any = build_tiny("LlamaForCausalLM")
        model.model.norm = MixesTime(model.model.norm)
        return model
    return build_tiny(name)


@pytest.mark.slow
def test_a_sweep_tells_honest_broken_and_unbuildable_classes_apart() -> None:
    seen: list[str] = []
    names = ("GPT2LMHeadModel", "Broken", "Gemma4AssistantForCausalLM")
    rows = sweep(
        names=names,
        checks=("K0", "K5", "K1"),
        build=build_or_break,
        progress=lambda row: seen.append(row.name),
    )
    assert seen == list(names)
    assert [row.verdict for row in rows] == ["VERIFIED", "DISPROVED", "NOT BUILDABLE"]
    assert rows[1].violations[0].finding.check == "K1"
    assert "another model's states" in rows[2].reason

    again = from_json(to_json(rows))
    assert [row.verdict for row in again] == [row.verdict for row in rows]
    assert to_markdown(again) == to_markdown(rows)
    page = to_markdown(rows)
    assert "| `Broken` | K1 future-swap |" in page
    assert page.index("## Disproved") < page.index("## Verified")


def test_an_unknown_library_is_refused() -> None:
    with pytest.raises(InputError, match="no zoo for library 'keras'"):
        sweep("keras")


def test_a_document_of_another_schema_is_refused() -> None:
    with pytest.raises(InputError, match="schema 0"):
        from_json(json.dumps({"schema": 0, "rows": []}))


def test_nothing_is_published_unread() -> None:
    rows = from_json((DOCS / "zoo.json").read_text())
    findings = (DOCS / "zoo-findings.md").read_text()
    headings = {_anchor_of(line) for line in findings.splitlines() if line.startswith("#")}
    assert len(rows) > 150
    for row in rows:
        for entry in row.violations:
            described = anchor(row.name, entry.finding.check)
            assert entry.explanation or described in headings, (row.name, entry.finding.check)


def test_the_published_table_is_the_published_data() -> None:
    rows = from_json((DOCS / "zoo.json").read_text())
    page = (DOCS / "zoo.md").read_text()
    made = [line for line in to_markdown(rows).splitlines() if line.startswith("|")]
    assert made == [line for line in page.splitlines() if line.startswith("|")]


def _anchor_of(heading: str) -> str:
    words = heading.lstrip("#").strip().lower()
    return "".join(c for c in words if c.isalnum() or c in " -_").replace(" ", "-")
