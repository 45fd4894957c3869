"""What the page says about a model: its shape, its hash, what can be done with it."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from torch import nn

from lookleft.bundle import Bundle
from lookleft.errors import LookleftError
from lookleft.explore.lanes import kinds_of
from lookleft.explore.states import HARD_LIMIT, LIMIT, MAX_CHARACTERS, MAX_NEW
from lookleft.models import EncoderDecoder, EncoderOnly
from lookleft.train.settings import RunSettings
from lookleft.train.settings_file import read_settings

_LAST_LINES = 65_536  # bytes read from the end of a log


@dataclass(frozen=True)
class Past:
    """How a model was trained, as far as its run folder says."""

    step: int | None = None
    data: str | None = None


@dataclass(frozen=True)
class ModelCard:
    """One model among those the page can show."""

    key: str
    name: str
    family: str
    mask: str | None
    n_encoder_layers: int | None
    n_decoder_layers: int | None
    n_heads: int
    n_kv_heads: int
    d_model: int
    head_dim: int
    vocab_size: int
    positions: str
    window: int | None
    context: int
    n_parameters: int
    hash: str
    kinds: tuple[dict[str, Any], ...]
    has_tokenizer: bool
    training: Past | None = None
    source_lang: str | None = None
    target_lang: str | None = None
    why_not: dict[str, str] = field(default_factory=dict)  # what it cannot do, and the reason

    @property
    def is_cheater(self) -> bool:
        """True if it was trained without the mask."""
        return self.mask == "none"

    def to_json(self) -> dict[str, Any]:
        can = {name: name not in self.why_not for name in _ABILITIES}
        limits = {
            "tokens": LIMIT,
            "hard_tokens": HARD_LIMIT,
            "characters": MAX_CHARACTERS,
            "max_new": MAX_NEW,
        }
        return asdict(self) | {"is_cheater": self.is_cheater, "can": can, "limits": limits}


_ABILITIES = ("inference", "beam", "cover", "mask_off", "audit")


def make_card(bundle: Bundle, key: str, name: str, folder: Path | None = None) -> ModelCard:
    """The card of a loaded model; `folder` is where its run lies, if it has one."""
    network, config = bundle.network, bundle.network.config
    settings = None if folder is None else run_settings(folder)
    languages = bundle.languages
    if settings is not None and not any(languages):
        languages = settings.data.languages
    mask: str | None = getattr(config, "mask", None)
    n_decoder = getattr(config, "n_decoder_layers", getattr(config, "n_layers", None))
    n_encoder = getattr(config, "n_encoder_layers", None)
    if isinstance(network, EncoderOnly):
        n_encoder, n_decoder = n_decoder, None
    kinds = tuple(
        {
            "kind": kind,
            "n_layers": n_layers,
            "n_heads": config.n_heads,
            "is_masked": kind == "decoder_self" and mask == "causal",
        }
        for kind, n_layers in kinds_of(network).items()
    )
    return ModelCard(
        key=key,
        name=name,
        family=config.family,
        mask=mask,
        n_encoder_layers=n_encoder,
        n_decoder_layers=n_decoder,
        n_heads=config.n_heads,
        n_kv_heads=config.kv_heads,
        d_model=config.d_model,
        head_dim=config.head_dim,
        vocab_size=config.vocab_size,
        positions=config.positions.kind,
        window=getattr(config, "window", None),
        context=config.context,
        n_parameters=network.n_parameters,
        hash=weights_hash(network),
        kinds=kinds,
        has_tokenizer=bundle.tokenizer is not None,
        training=None if folder is None or settings is None else _past(folder, settings),
        source_lang=languages[0],
        target_lang=languages[1],
        why_not=_why_not(bundle),
    )


def weights_hash(network: nn.Module) -> str:
    """16 hexadecimal digits that two networks share only if every weight is the same."""
    digest = hashlib.blake2b(digest_size=8)
    for name, tensor in sorted(network.state_dict().items()):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.detach().cpu().contiguous().float().numpy().data)
    return digest.hexdigest()


def run_settings(folder: Path) -> RunSettings | None:
    """The settings of the run in a folder; None if it is no run."""
    if not (folder / "config.toml").is_file():
        return None
    try:
        return read_settings(folder / "config.toml")
    except LookleftError:
        return None  # written by another version: the model itself is what matters


def _past(folder: Path, settings: RunSettings) -> Past:
    data = settings.data.train
    named = data if isinstance(data, str) else " + ".join(data)
    return Past(step=_last_step(folder / "metrics.jsonl"), data=named)


def _last_step(log: Path) -> int | None:
    """The step of the last whole line of a log, if there is one."""
    try:
        with log.open("rb") as file:
            file.seek(0, 2)
            file.seek(max(file.tell() - _LAST_LINES, 0))
            lines = file.read().splitlines()
        step = json.loads(lines[-1])["step"]
    except (OSError, IndexError, ValueError, KeyError, TypeError):
        return None
    return step if isinstance(step, int) else None


def _why_not(bundle: Bundle) -> dict[str, str]:
    network = bundle.network
    reasons = {}
    if isinstance(network, EncoderOnly):
        reasons["inference"] = (
            "An encoder sees the whole text at once and writes nothing word by word, so there is "
            "no second lane."
        )
        reasons["mask_off"] = "An encoder has no mask: every word may look at every other."
        reasons["audit"] = "The rule 'only look left' is not meant for an encoder."
        if bundle.specials.mask is None:
            reasons["cover"] = "This vocabulary has no mask token to cover a word with."
    else:
        reasons["cover"] = "Only encoder-only models predict words that are covered up."
    if not isinstance(network, EncoderDecoder):
        reasons["beam"] = "The beam view is for translation."
    return reasons
