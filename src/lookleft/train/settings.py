"""What a run is: one frozen record, read from TOML with overrides, written back resolved."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import tomlkit
from pydantic import Field, PositiveInt

from lookleft.config import (
    DecoderOnlyConfig,
    EncoderDecoderConfig,
    Frozen,
    Positions,
    Rate,
    Vocabulary,
    Width,
)
from lookleft.errors import ConfigError, FileError
from lookleft.train.schedule import Kind

Layers = Annotated[int, Field(ge=1, le=1_024)]
PHRASES = "phrases"  # stands for the built-in English-Hindi grammar where a file is asked for


class DataSettings(Frozen):
    """Where the text comes from."""

    train: str | tuple[str, str] = PHRASES  # a .tsv, .jsonl or text file, or two parallel files
    dev: str | tuple[str, str] | None = PHRASES  # the same; none: train without measuring
    max_tokens: PositiveInt = 128  # of either side; longer pairs are left out and counted
    bpe_dropout: Rate = 0.0


class TextSettings(Frozen):
    """How text becomes ids."""

    kind: Literal["bpe", "unigram", "char", "byte"] = "bpe"
    vocab_size: Vocabulary = 4_000


class ModelSettings(Frozen):
    """The network: the choices of `config.py` that a run makes; the rest follows from the task."""

    d_model: Width = 128
    n_heads: Width = 4
    n_kv_heads: Width | None = None
    d_ff: Width = 256
    n_layers: Layers = 4  # of the decoder, and of the encoder unless set
    n_encoder_layers: Layers | None = None
    positions: Positions | None = None  # unset: the paper's sinusoids (translate), rotary (lm)
    norm: Literal["layer", "rms"] = "layer"
    norm_order: Literal["pre", "post"] = "pre"
    activation: Literal["relu", "gelu", "gelu_tanh", "silu", "relu2"] = "relu"
    gated: bool = False
    qk_norm: bool = False
    dropout: Rate = 0.1
    mask: Literal["causal", "none"] = "causal"  # "none" trains a model that peeks


class TrainSettings(Frozen):
    """How it is trained."""

    steps: PositiveInt = 2_000
    tokens: PositiveInt = 4_096  # of one micro-batch, both sides and padding counted
    accumulate: PositiveInt = 1  # micro-batches per step
    length: PositiveInt = 256  # of a packed row (lm)
    lr: float = Field(default=2e-3, gt=0)
    matrix_lr: float | None = Field(default=None, gt=0)  # set: Muon for the matrices
    warmup: int = Field(default=200, ge=0)
    schedule: Kind = "inverse-sqrt"
    weight_decay: float = Field(default=0.0, ge=0)
    smoothing: Rate = 0.1
    max_norm: float = Field(default=1.0, gt=0)
    seed: int = Field(default=1234, ge=0)
    log_every: PositiveInt = 50
    eval_every: PositiveInt = 500
    save_every: PositiveInt = 500
    patience: int = Field(default=0, ge=0)  # evaluations without gain before stopping; 0: never


class RunSettings(Frozen):
    """A whole run."""

    task: Literal["translate", "lm"] = "translate"
    data: DataSettings = DataSettings()
    text: TextSettings = TextSettings()
    model: ModelSettings = ModelSettings()
    train: TrainSettings = TrainSettings()


def read_settings(path: Path | None, overrides: Mapping[str, str] | None = None) -> RunSettings:
    """The settings of a TOML file, or the defaults; `{"train.lr": "3e-4"}` is put over them."""
    values: dict[str, Any] = {}
    if path is not None:
        try:
            values = tomllib.loads(path.read_text(encoding="utf-8"))
        except OSError as error:
            raise FileError(f"{path}: cannot be read: {error.strerror}") from error
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise ConfigError(f"{path}: is no valid TOML: {error}") from error
    for key, text in (overrides or {}).items():
        *sections, name = key.replace("-", "_").split(".")
        place = values
        for section in sections:
            place = place.setdefault(section, {})
            if not isinstance(place, dict):
                raise ConfigError(f"--{key}: {section} is a value, not a section")
        place[name] = _typed(text)
    return RunSettings.parse(values, str(path or "the settings"))


def write_settings(settings: RunSettings, path: Path) -> None:
    """The resolved settings as TOML; what is unset is left out."""
    text = tomlkit.dumps(settings.model_dump(mode="json", exclude_none=True))
    path.write_text(text, encoding="utf-8")


def model_config(
    settings: RunSettings, vocab_size: int, start_id: int
) -> DecoderOnlyConfig | EncoderDecoderConfig:
    """The network that the settings ask for, over a vocabulary of this size."""
    chosen = settings.model
    is_pre = chosen.norm_order == "pre"
    shared: dict[str, Any] = chosen.model_dump(
        exclude={"n_layers", "n_encoder_layers", "positions"}
    ) | {
        "vocab_size": vocab_size,
        "attention_dropout": 0.0,
        "final_norm": is_pre,
        "embed_scale": chosen.d_model**0.5,
    }
    if settings.task == "lm":
        positions = chosen.positions or {"kind": "rotary"}
        values = shared | {"n_layers": chosen.n_layers, "positions": positions}
        return DecoderOnlyConfig.parse(values, "[model]")
    values = shared | {
        "n_encoder_layers": chosen.n_encoder_layers or chosen.n_layers,
        "n_decoder_layers": chosen.n_layers,
        "positions": chosen.positions or {"kind": "sinusoidal", "layout": "halves"},
        "start_id": start_id,
    }
    return EncoderDecoderConfig.parse(values, "[model]")


def _typed(text: str) -> Any:
    """An override as TOML would read it; what TOML cannot read is a string."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text
