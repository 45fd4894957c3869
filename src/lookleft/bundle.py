"""A model with what it needs to speak: network, tokenizer, special ids; loaded from and saved to
a folder or file."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import torch
from torch import nn

from lookleft.config import DecoderOnlyConfig, EncoderDecoderConfig, EncoderOnlyConfig
from lookleft.errors import ConfigError, FileError, InputError
from lookleft.files import look_at, make_folder, write_json
from lookleft.interop.hf import load_hf, save_hf
from lookleft.interop.hf.folder import read_config
from lookleft.interop.places import Place, assemble, shapes_of
from lookleft.models import AnyModel
from lookleft.tensors import FILE_NAME, read_folder, write_tensors
from lookleft.text.tokenizer import Tokenizer
from lookleft.text.vocab import Specials, read_specials

OWN_TYPE = "lookleft"  # model_type of networks that no Hugging Face class can express

CONFIGS = (DecoderOnlyConfig, EncoderDecoderConfig, EncoderOnlyConfig)

Layout = Literal["auto", "hf", "lookleft"]


@dataclass
class Bundle:
    """A network that is ready to run, and its tokenizer if it came with one."""

    network: AnyModel
    tokenizer: Tokenizer | None = None
    specials: Specials = field(default_factory=Specials)

    def encode(self, text: str) -> list[int]:
        """The ids of a text, with the special tokens that this model's tokenizer adds."""
        if self.tokenizer is None:
            raise InputError("this model came without a tokenizer: give ids instead of text")
        return self.tokenizer.encode(text, template=True)

    def audit_subject(self) -> nn.Module:
        """What the audit should call instead of this bundle."""
        return self.network.audit_subject()

    def save(self, folder: str | Path, layout: Layout = "auto") -> str:
        """Write config.json, model.safetensors and the tokenizer; get the model_type written.

        "hf" is the layout that transformers reads, "lookleft" our own, which can express every
        network; "auto" takes the first if the network fits it.
        """
        folder = Path(folder)
        if look_at(folder) not in ("nothing", "folder"):
            raise FileError(f"{folder}: is a file; a model is saved as a folder")
        model_type = self._save_network(folder, layout)
        if self.tokenizer is not None:
            self.tokenizer.save(folder)
        write_json(folder / "generation_config.json", self._generation_config())
        return model_type

    def _save_network(self, folder: Path, layout: Layout) -> str:
        if layout != "lookleft":
            try:
                return save_hf(self.network, folder, self.specials).model_type
            except ConfigError:
                if layout == "hf":
                    raise
        make_folder(folder)
        write_tensors(folder / FILE_NAME, self.network.state_dict())
        config = {"model_type": OWN_TYPE, **self.network.config.model_dump(mode="json")}
        write_json(folder / "config.json", config | self._special_ids())
        return OWN_TYPE

    def _special_ids(self) -> dict[str, int]:
        ids = self.specials.as_dict()
        return {f"{role}_token_id": id for role, id in ids.items() if role in ("bos", "eos", "pad")}

    def _generation_config(self) -> dict[str, int]:
        ids = self._special_ids()
        if isinstance(self.network.config, EncoderDecoderConfig):
            ids["decoder_start_token_id"] = self.network.config.start_id
        return ids


def load(path: str | Path, *, dtype: torch.dtype = torch.float32) -> Bundle:
    """The model in a run folder, a model folder (ours or Hugging Face's) or a GGUF file."""
    path = Path(path)
    found = look_at(path)
    if found == "nothing":
        raise FileError(f"{path}: does not exist; give a model folder or a .gguf file")
    if found == "file":
        if path.suffix in (".json", ".safetensors"):
            raise FileError(f"{path}: is one file of a model; give its folder, {path.parent}")
        from lookleft.interop.gguf import load_gguf

        network, tokenizer = load_gguf(path)
        return Bundle(network.to(dtype), tokenizer, tokenizer.specials)
    if (path / "model" / "config.json").exists():
        path = path / "model"  # a run folder keeps its model there
    theirs = read_config(path)
    is_own = theirs.get("model_type") == OWN_TYPE
    model = _load_own(path, theirs, dtype) if is_own else load_hf(path, dtype=dtype)
    if (path / "tokenizer.json").exists():
        tokenizer = Tokenizer.load(path)
        return Bundle(model, tokenizer, tokenizer.specials)
    return Bundle(model, None, read_specials(path, lambda piece: None))


def _load_own(folder: Path, theirs: dict[str, object], dtype: torch.dtype) -> AnyModel:
    """A folder written by `Bundle.save` in our own layout."""
    where = f"{folder / 'config.json'}"
    values = {k: v for k, v in theirs.items() if k != "model_type" and not k.endswith("_token_id")}
    known = {kind.model_fields["family"].default: kind for kind in CONFIGS}
    family = values.get("family")
    if not isinstance(family, str) or family not in known:
        raise ConfigError(f"{where}: family={family!r} is not known: {', '.join(known)}")
    config = known[family].parse(values, where)
    places = {name: Place(name) for name in shapes_of(config)}
    file = str(folder / FILE_NAME)
    return assemble(config, places, read_folder(folder), file=file, dtype=dtype)
