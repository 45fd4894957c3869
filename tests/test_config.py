"""Configs refuse what cannot be built, in words that carry the values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from lookleft.config import (
    DecoderOnlyConfig,
    EncoderDecoderConfig,
    EncoderOnlyConfig,
    Frozen,
    Learned,
    Relative,
    RopeScaling,
    Rotary,
    Sinusoidal,
)
from lookleft.errors import ConfigError
from lookleft.models import presets


def test_what_can_be_derived_is_derived() -> None:
    config = DecoderOnlyConfig(vocab_size=9, d_model=12, n_heads=3)
    assert (config.head_dim, config.kv_heads) == (4, 3)
    config = DecoderOnlyConfig(vocab_size=9, d_model=12, n_heads=4, n_kv_heads=2, head_width=10)
    assert (config.head_dim, config.kv_heads) == (10, 2)
    assert DecoderOnlyConfig(vocab_size=9, max_len=5).context == 5
    learned = DecoderOnlyConfig(vocab_size=9, positions=Learned(max_len=7), max_len=100)
    assert learned.context == 7


WRONG = [
    ({"d_model": 10, "n_heads": 4}, "d_model=10 is no multiple of n_heads=4"),
    ({"n_heads": 4, "n_kv_heads": 3}, "n_heads=4 is no multiple of n_kv_heads=3"),
    ({"positions": Rotary(), "head_width": 5}, "head width 5 is odd"),
    ({"positions": Sinusoidal(), "d_model": 15, "n_heads": 3}, "d_model=15 is odd"),
    ({"positions": {"kind": "spiral"}}, "spiral"),
    ({"d_modle": 16}, "d_modle"),
    ({"d_model": 0}, "d_model"),
    ({"d_model": 10**9}, "d_model"),
    ({"vocab_size": 10**9}, "vocab_size"),
    ({"n_layers": 10**6}, "n_layers"),
    ({"window": 0}, "window"),
    ({"dropout": 1.0}, "dropout"),
    ({"dropout": -0.1}, "dropout"),
    ({"norm_eps": 0.0}, "norm_eps"),
    ({"embed_scale": float("nan")}, "embed_scale"),
    ({"attention_scale": float("inf")}, "attention_scale"),
    ({"positions": {"kind": "rotary", "theta": float("inf")}}, "theta"),
    ({"positions": {"kind": "relative", "n_buckets": 32, "max_distance": 16}}, "max_distance=16"),
    ({"positions": {"kind": "learned", "max_len": 8, "offset": 10**9}}, "offset"),
    ({"mask": "bidirectional"}, "mask"),
]


@pytest.mark.parametrize(("values", "words"), WRONG, ids=[words for _, words in WRONG])
def test_what_cannot_be_built_is_refused_in_words(values: dict[str, object], words: str) -> None:
    with pytest.raises(ConfigError, match=r"run\.toml is no valid DecoderOnlyConfig") as caught:
        DecoderOnlyConfig.parse({"vocab_size": 9, **values}, "run.toml")
    assert words in str(caught.value)


def test_every_wrong_key_is_named_at_once() -> None:
    with pytest.raises(ConfigError) as caught:
        DecoderOnlyConfig.parse({"vocab_size": 9, "d_model": "wide", "colour": "red"}, "run.toml")
    assert "d_model" in str(caught.value)
    assert "colour" in str(caught.value)


def test_a_key_of_one_of_several_records_is_named_as_it_is_written() -> None:
    class Outer(Frozen):
        model: DecoderOnlyConfig

    for key, words in (
        ("thetta", "unknown option model.positions.thetta; did you mean model.positions.theta ?"),
        ("colour", "unknown option model.positions.colour; known: kind, theta"),
    ):
        positions = {"kind": "rotary", key: 5}
        with pytest.raises(ConfigError) as caught:
            Outer.parse({"model": {"vocab_size": 9, "positions": positions}}, "run.toml")
        assert words in str(caught.value)


class Inner(Frozen):
    """A section with a name that others call otherwise."""

    other_names: ClassVar[Mapping[str, str]] = {"breadth": "width"}
    width: int = 1


class Outer(Frozen):
    """Two sections, and a command that tells what is in them."""

    see_all: ClassVar[str] = "tell keys"
    task: str = "lm"
    one: Inner = Inner()
    two: DecoderOnlyConfig = DecoderOnlyConfig(vocab_size=9)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"width": 2}, "option width; did you mean one.width ?; to see all: tell keys"),
        ({"two": {"width": 2}}, "two.width; did you mean one.width ?; to see all: tell keys two"),
        ({"two": {"breadth": 2}}, "did you mean one.width ?"),
        ({"one": {"task": "lm"}}, "did you mean task ?"),
        ({"one": {"breadth": 2}}, "did you mean one.width ?"),
        ({"one": {"x": 2}, "two": {"y": 2}}, "; to see all: tell keys one two"),
        ({"one": {"x": 2}, "z": 2}, "; to see all: tell keys"),
    ],
)
def test_a_key_of_another_section_is_found_there(values: dict[str, object], words: str) -> None:
    if "two" in values:
        values = values | {"two": {"vocab_size": 9, **values["two"]}}  # type: ignore[dict-item]
    with pytest.raises(ConfigError) as caught:
        Outer.parse(values, "run.toml")
    assert words in str(caught.value)
    assert str(caught.value).endswith(words) or "to see all" not in words


def test_a_record_without_a_command_that_tells_its_keys_names_none() -> None:
    with pytest.raises(ConfigError) as caught:
        DecoderOnlyConfig.parse({"vocab_size": 9, "d_modle": 2}, "run.toml")
    assert "to see all" not in str(caught.value)


def test_a_kind_of_positions_alone_stands_for_its_record() -> None:
    config = DecoderOnlyConfig.parse({"vocab_size": 9, "positions": "rotary"}, "run.toml")
    assert config.positions == Rotary()
    for kind, words in (("spiral", "spiral"), ("learned", "positions.max_len: Field required")):
        with pytest.raises(ConfigError, match=words):
            DecoderOnlyConfig.parse({"vocab_size": 9, "positions": kind}, "run.toml")


def test_scalings_and_buckets_that_would_divide_by_zero_are_refused() -> None:
    for kind in ("linear", "llama3"):
        with pytest.raises(ValidationError, match=r"low_freq_factor=4\.0 must be below"):
            RopeScaling(kind=kind, factor=2.0, low_freq_factor=4.0)
    with pytest.raises(ValidationError, match="max_distance=4 must exceed the 4 near distances"):
        Relative(n_buckets=8, max_distance=4)
    with pytest.raises(ValidationError, match="factor"):
        RopeScaling(kind="linear", factor=0.5)


def test_the_first_token_of_a_decoder_must_exist() -> None:
    with pytest.raises(ValidationError, match=r"start_id=9 is outside 0\.\.8"):
        EncoderDecoderConfig(vocab_size=9, start_id=9)


def test_configs_do_not_change_once_made() -> None:
    config = DecoderOnlyConfig(vocab_size=9)
    with pytest.raises(ValidationError, match="frozen"):
        config.d_model = 8  # type: ignore[misc]


@pytest.mark.parametrize(
    "config",
    [
        presets.paper_base(100),
        presets.tiny(100),
        presets.gpt(100),
        presets.llama(100),
        presets.bert(100),
        DecoderOnlyConfig(
            vocab_size=9, positions=Rotary(scaling=RopeScaling(kind="llama3", factor=8.0))
        ),
        EncoderOnlyConfig(vocab_size=9, positions=Relative()),
    ],
)
def test_a_config_survives_the_way_through_plain_values(config: DecoderOnlyConfig) -> None:
    assert type(config).parse(config.model_dump(), "here") == config
    assert type(config).model_validate_json(config.model_dump_json()) == config


@given(d_model=st.integers(1, 40), n_heads=st.integers(1, 8), n_kv_heads=st.integers(1, 8))
def test_numbers_that_fit_are_taken_and_others_are_not(
    d_model: int, n_heads: int, n_kv_heads: int
) -> None:
    fits = d_model % n_heads == 0 and n_heads % n_kv_heads == 0 and d_model % 2 == 0
    values = {"vocab_size": 9, "d_model": d_model, "n_heads": n_heads, "n_kv_heads": n_kv_heads}
    if fits:
        assert DecoderOnlyConfig.parse(values, "here").head_dim * n_heads == d_model
    else:
        with pytest.raises(ConfigError):
            DecoderOnlyConfig.parse(values, "here")
