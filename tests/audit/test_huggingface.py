"""Models of another library: honest ones pass, hand-broken ones are found where they are broken."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import transformers
from torch import Tensor, nn

from lookleft.audit import Verdict, audit
from lookleft.audit.run import planned_for

SIZES = {
    "vocab_size": 97,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 128,
}


def llama() -> nn.Module:
    torch.manual_seed(0)
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(**SIZES))


def mixtral() -> nn.Module:
    torch.manual_seed(0)
    return transformers.MixtralForCausalLM(
        transformers.MixtralConfig(**SIZES, num_local_experts=4, sliding_window=None)
    )


def t5() -> nn.Module:
    torch.manual_seed(0)
    config = transformers.T5Config(
        vocab_size=97,
        d_model=32,
        d_kv=8,
        d_ff=48,
        num_layers=2,
        num_heads=4,
        decoder_start_token_id=0,
    )
    return transformers.T5ForConditionalGeneration(config)


@pytest.mark.parametrize("build", [llama, mixtral, t5])
def test_honest_models_pass(build: object) -> None:
    report = audit(build(), quick=True)  # type: ignore[operator]
    assert report.verdict is Verdict.VERIFIED, [
        f for f in report.findings if f.verdict != "SKIPPED"
    ]


def test_labels_generation_and_packing_are_understood() -> None:
    report = audit(llama(), checks=("K6", "K8", "K9", "K10"), backends=["sdpa"])
    assert {f.check: f.verdict for f in report.findings} == dict.fromkeys(
        ("K6", "K8", "K9", "K10"), Verdict.VERIFIED
    )


@pytest.mark.parametrize("build", [llama, t5])
def test_guessing_several_tokens_at_once_gives_the_same_text(build: object) -> None:
    (found,) = audit(build(), checks="K10", backends=["sdpa"]).findings  # type: ignore[operator]
    assert found.verdict is Verdict.VERIFIED
    assert "a draft model" in found.reason


def test_a_draft_model_that_is_believed_unseen_is_found() -> None:
    model = llama()
    honest = model.generate

    def generate(assistant_model: nn.Module | None = None, **rest: object) -> Tensor:
        """With a draft model at hand, it is asked alone."""
        return (honest if assistant_model is None else assistant_model.generate)(**rest)

    def tokens(ids: Tensor, n: int, is_token: Tensor | None = None, **how: object) -> Tensor:
        mask = torch.ones_like(ids) if is_token is None else is_token.long()
        settings = {"max_new_tokens": n, "do_sample": False, "pad_token_id": 0}
        return generate(input_ids=ids, attention_mask=mask, **settings, **how)

    found = audit(model, generate=tokens, checks="K10", backends=["sdpa"]).violations
    assert "with a draft model" in found[0].reason


@pytest.mark.slow
def test_compiled_code_is_audited_on_request() -> None:
    found = audit(llama(), checks="K1", backends="compile").findings
    assert [one.configuration.split(", ")[1] for one in found] == [
        "compiled by aot_eager",
        "compiled by inductor",
    ]
    assert found[0].verdict is Verdict.VERIFIED
    assert found[1].verdict in (Verdict.VERIFIED, Verdict.SKIPPED)  # by whether there is a compiler


def test_the_sweep_over_all_backends_plans_flex_and_compiled_code() -> None:
    words = [words for _, words in planned_for(llama(), checks="K1", backends="all")]
    for name in ("flex_attention", "compiled by aot_eager", "sdpa", "eager"):
        assert any(name in one for one in words), name
    alone = [words for _, words in planned_for(llama(), checks="K1")]
    assert not any("compiled" in one or "flex" in one for one in alone)


def test_the_source_side_of_an_encoder_decoder_is_understood() -> None:
    report = audit(t5(), checks="K7", backends=["eager"])
    assert {f.verdict for f in report.findings} == {Verdict.VERIFIED}


def test_a_mask_lost_in_training_is_found_in_its_layer() -> None:
    model = llama()
    attention = model.get_submodule("model.layers.1.self_attn")

    class Unmasked(type(attention)):  # type: ignore[misc]
        def forward(self, hidden_states: Tensor, **rest: object) -> object:
            if self.training:
                size = hidden_states.size(1)
                rest["attention_mask"] = torch.zeros(1, 1, size, size, dtype=hidden_states.dtype)
            return super().forward(hidden_states, **rest)

    attention.__class__ = Unmasked
    report = audit(model, checks="K1", backends=["sdpa"], stop=True)
    (found,) = report.violations
    assert "train" in found.configuration
    assert found.module == "model.layers.1.self_attn"
    assert model.config._attn_implementation == "sdpa"


@pytest.mark.slow
def test_flex_attention_is_judged_in_its_own_dtype() -> None:
    report = audit(llama(), backends="flex_attention", checks="K1", length=9)
    (found,) = report.findings
    assert found.verdict is Verdict.VERIFIED
    assert "flex_attention" in found.configuration
    assert "native dtype" in found.configuration


@pytest.mark.parametrize(
    "rule", [{"forced_eos_token_id": 7}, {"repetition_penalty": 9.0}, {"no_repeat_ngram_size": 1}]
)
def test_rules_of_generation_are_not_taken_for_faults(rule: dict[str, Any]) -> None:
    model = llama()
    for name, value in rule.items():
        setattr(model.generation_config, name, value)
    before = model.generation_config.to_dict()
    (found,) = audit(model, checks="K10", backends=["sdpa"]).findings
    assert found.verdict is Verdict.VERIFIED, found.reason
    assert model.generation_config.to_dict() == before
