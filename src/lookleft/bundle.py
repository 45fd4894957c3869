"""A model with what it needs to speak: network, tokenizer, special ids; loaded from and saved to
a folder or file."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor, nn

from lookleft.bundled import find_model
from lookleft.config import (
    MAX_BEAM,
    MAX_PENALTY,
    DecoderOnlyConfig,
    EncoderDecoderConfig,
    EncoderOnlyConfig,
)
from lookleft.errors import ConfigError, FileError, InputError
from lookleft.files import (
    look_at,
    read_bytes,
    read_json,
    remove,
    write_atomically,
    write_json,
)
from lookleft.interop.hf import load_hf, save_hf
from lookleft.interop.hf.folder import MAX_CONFIG_BYTES, MAX_CONFIG_DEPTH, read_config
from lookleft.interop.places import Place, assemble, shapes_of
from lookleft.models import AnyModel, EncoderDecoder
from lookleft.quantised import (
    PART,
    Kind,
    Quantised,
    as_arrays,
    from_arrays,
    is_matrix,
    quantise,
)
from lookleft.tensors import FILE_NAME, read_folder, write_folder
from lookleft.text.tokenizer import Tokenizer
from lookleft.text.vocab import Specials, read_specials

TEMPLATE_NAME = "chat_template.jinja"
GENERATION_NAME = "generation_config.json"
OWN_TYPE = "lookleft"  # model_type of networks that no Hugging Face class can express

CONFIGS = (DecoderOnlyConfig, EncoderDecoderConfig, EncoderOnlyConfig)

SOURCE_FOLDER = "source"  # where the source side's tokenizer lies, if it has one of its own
Layout = Literal["auto", "hf", "lookleft"]
Languages = tuple[str | None, str | None]


@dataclass
class Bundle:
    """A network that is ready to run, and its tokenizer if it came with one."""

    network: AnyModel
    tokenizer: Tokenizer | None = None
    specials: Specials = field(default_factory=Specials)
    languages: Languages = (None, None)  # codes of source and target, if the model says
    # Matrices that its file holds in few bits, by name, read when asked for. The network holds the
    # same numbers in full.
    quantised: Callable[[], Mapping[str, Quantised]] = dict
    chat_template: str | None = None  # how it wants a conversation spelt: foreign code, sandboxed
    source_tokenizer: Tokenizer | None = None  # of a translator whose sides share no vocabulary
    # What a beam of a translator divides a sum of log-probabilities by: the length to this power.
    # It was chosen for beams of this width, which transformers takes up and we do not.
    length_penalty: float = 1.0
    penalty_beam: int = 1

    def encode(self, text: str) -> list[int]:
        """The ids of a text, with the special tokens that this model was trained to read."""
        return self._encode(text, self.tokenizer)

    def encode_source(self, text: str) -> list[int]:
        """The ids of a text to be translated: as `encode`, with the source side's vocabulary."""
        return self._encode(text, self.source_tokenizer or self.tokenizer)

    def _encode(self, text: str, tokenizer: Tokenizer | None) -> list[int]:
        if tokenizer is None:
            raise InputError("this model came without a tokenizer: give ids instead of text")
        ids, eos = tokenizer.encode(text, template=True), tokenizer.specials.eos
        if isinstance(self.network, EncoderDecoder) and eos is not None and ids[-1:] != [eos]:
            ids.append(eos)  # both sides of a translator end, whether or not a template says so
        return ids

    def audit_subject(self) -> nn.Module:
        """What the audit should call instead of this bundle."""
        return self.network.audit_subject()

    def save(self, folder: str | Path, layout: Layout = "auto") -> str:
        """Write config.json, model.safetensors and the tokenizer; get the model_type written.

        "hf" is the layout that transformers reads, "lookleft" our own, which can express every
        network; "auto" takes the first if the network fits it.
        """
        folder = Path(folder)
        return self._save_around(folder, lambda: self._save_network(folder, layout))

    def _save_around(self, folder: Path, save_network: Callable[[], str]) -> str:
        """Write the network, and beside it everything else; get the model_type written."""
        if look_at(folder) not in ("nothing", "folder"):
            raise FileError(f"{folder}: is a file; a model is saved as a folder")
        model_type = save_network()
        if self.tokenizer is not None:
            self.tokenizer.save(folder)
        if self.source_tokenizer is not None:
            self.source_tokenizer.save(folder / SOURCE_FOLDER)
        else:
            remove(folder / SOURCE_FOLDER / "tokenizer.json")  # of an older model
        write_json(folder / GENERATION_NAME, self._generation_config())
        if self.chat_template is not None:
            write_atomically(folder / TEMPLATE_NAME, self.chat_template.encode("utf-8"))
        else:
            remove(folder / TEMPLATE_NAME)
        return model_type

    def _save_network(self, folder: Path, layout: Layout) -> str:
        if layout != "lookleft":
            try:
                return save_hf(self.network, folder, self.specials).model_type
            except ConfigError:
                if layout == "hf":
                    raise
        return self._write_own(folder, self.network.state_dict())

    def _write_own(self, folder: Path, tensors: Mapping[str, Tensor]) -> str:
        """Weights and config in our own layout."""
        write_folder(folder, tensors)
        config = {"model_type": OWN_TYPE, **self.network.config.model_dump(mode="json")}
        write_json(folder / "config.json", config | self._special_ids())
        return OWN_TYPE

    def save_quantised(self, folder: str | Path, kind: Kind) -> None:
        """Write the model with its matrices in few bits, in our own layout; `load` reads it."""
        folder = Path(folder)
        tensors: dict[str, Tensor] = {}
        for name, tensor in self.network.state_dict().items():
            few = None
            if is_matrix(name, tensor.ndim):
                few = quantise(tensor.float().cpu().numpy(), kind)
            if few is None:
                tensors[name] = tensor
            else:
                arrays = as_arrays(name, few)
                tensors |= {part: torch.from_numpy(array) for part, array in arrays.items()}
        self._save_around(folder, lambda: self._write_own(folder, tensors))

    def _special_ids(self) -> dict[str, int]:
        ids = self.specials.as_dict()
        return {f"{role}_token_id": id for role, id in ids.items() if role in ("bos", "eos", "pad")}

    def _generation_config(self) -> dict[str, Any]:
        values: dict[str, Any] = {**self._special_ids()}
        if isinstance(self.network.config, EncoderDecoderConfig):
            values["decoder_start_token_id"] = self.network.config.start_id
        if any(self.languages):
            values["languages"] = list(self.languages)
        if self.penalty_beam > 1:
            values |= {"num_beams": self.penalty_beam, "length_penalty": self.length_penalty}
        return values


def load(path: str | Path | None = None, *, dtype: torch.dtype = torch.float32) -> Bundle:
    """The model in a run folder, a model folder (ours or Hugging Face's) or a GGUF file.

    None, and the name of a model that comes with lookleft, mean that one; a path that exists wins.
    """
    path = find_model(path)
    found = look_at(path)
    if found == "nothing":
        raise FileError(f"{path}: does not exist; give a model folder or a .gguf file")
    if found == "file":
        if path.suffix in (".json", ".safetensors"):
            raise FileError(f"{path}: is one file of a model; give its folder, {path.parent}")
        from lookleft.interop.gguf import load_gguf, quantised_of
        from lookleft.interop.gguf_file import read_gguf

        file = read_gguf(path)
        network, tokenizer = load_gguf(file)
        template = file.text("tokenizer.chat_template", default="") or None
        return Bundle(
            network.to(dtype),
            tokenizer,
            tokenizer.specials,
            chat_template=template,
            quantised=partial(quantised_of, file),
        )
    if (path / "model" / "config.json").exists():
        path = path / "model"  # a run folder keeps its model there
    elif (path / "config.toml").exists() and not (path / "config.json").exists():
        raise FileError(
            f"{path}: this run has not ended, so it has no model yet. Go on with it: "
            f"lookleft train --resume --out {path}"
            + (f"; or take the best so far, {path / 'best'}" if (path / "best").exists() else "")
        )
    theirs = read_config(path)
    is_own = theirs.get("model_type") == OWN_TYPE
    few: dict[str, Quantised] = {}
    if is_own:
        model, few = _load_own(path, theirs, dtype)
    else:
        model = load_hf(path, dtype=dtype)
    has_tokenizer = (path / "tokenizer.json").exists()
    reader = Tokenizer.load(path) if has_tokenizer else None
    penalty, penalty_beam = 1.0, 1
    if isinstance(model, EncoderDecoder):
        penalty, penalty_beam = _length_penalty(path)
    return Bundle(
        model,
        reader,
        read_specials(path, lambda piece: None) if reader is None else reader.specials,
        _languages(path),
        chat_template=None if reader is None else _chat_template(path),
        quantised=lambda: few,
        source_tokenizer=load_source_tokenizer(path),
        length_penalty=penalty,
        penalty_beam=penalty_beam,
    )


def load_source_tokenizer(folder: Path) -> Tokenizer | None:
    """The tokenizer of the source side in a model or run folder; None if both sides share one."""
    has_own = (folder / SOURCE_FOLDER / "tokenizer.json").exists()
    return Tokenizer.load(folder / SOURCE_FOLDER) if has_own else None


def _languages(folder: Path) -> Languages:
    """The pair of languages that a folder names, as `Bundle.save` writes it."""
    codes = _read_generation(folder).get("languages")
    if not isinstance(codes, list) or len(codes) != 2:
        return None, None
    source, target = (code if isinstance(code, str) else None for code in codes)
    return source, target


def _length_penalty(folder: Path) -> tuple[float, int]:
    """The length penalty that a folder names, in our files or Hugging Face's, and for what beam."""
    found = _read_generation(folder)
    penalty, beam = found.get("length_penalty"), found.get("num_beams")
    if penalty is None or beam in (None, 1):  # without a beam it has no meaning
        return 1.0, 1
    is_number = type(penalty) in (int, float) and abs(penalty) <= MAX_PENALTY
    if not is_number or type(beam) is not int or not 1 < beam <= MAX_BEAM:
        raise ConfigError(
            f"{folder / GENERATION_NAME}: length_penalty={penalty!r:.40}, num_beams={beam!r:.40}: "
            f"a penalty is a number from -{MAX_PENALTY} to {MAX_PENALTY}, a beam a whole one from "
            f"1 to {MAX_BEAM}"
        )
    return float(penalty), beam


def _read_generation(folder: Path) -> dict[str, Any]:
    file = folder / GENERATION_NAME
    limits = {"max_bytes": MAX_CONFIG_BYTES, "max_depth": MAX_CONFIG_DEPTH}
    return read_json(file, **limits) if file.exists() else {}


def _chat_template(folder: Path) -> str | None:
    """The template beside a model: a file of its own, or inside tokenizer_config.json."""
    limit = {"max_bytes": MAX_CONFIG_BYTES}
    if (folder / TEMPLATE_NAME).exists():
        data = read_bytes(folder / TEMPLATE_NAME, **limit)
        try:
            return data.decode("utf-8")
        except UnicodeDecodeError as error:
            raise FileError(f"{folder / TEMPLATE_NAME}: is not UTF-8: {error.reason}") from error
    file = folder / "tokenizer_config.json"
    if not file.exists():
        return None
    found = read_json(file, max_depth=MAX_CONFIG_DEPTH, **limit).get("chat_template")
    if isinstance(found, list):  # several, by name
        named = {str(entry.get("name")): entry for entry in found if isinstance(entry, dict)}
        found = named.get("default", {}).get("template")
    return found if isinstance(found, str) else None


def _load_own(
    folder: Path, theirs: dict[str, object], dtype: torch.dtype
) -> tuple[AnyModel, dict[str, Quantised]]:
    """A folder written by `Bundle.save` in our own layout, and what it holds in few bits."""
    where = f"{folder / 'config.json'}"
    values = {k: v for k, v in theirs.items() if k != "model_type" and not k.endswith("_token_id")}
    known = {kind.model_fields["family"].default: kind for kind in CONFIGS}
    family = values.get("family")
    if not isinstance(family, str) or family not in known:
        raise ConfigError(f"{where}: family={family!r} is not known: {', '.join(known)}")
    config = known[family].parse(values, where)
    places = {name: Place(name) for name in shapes_of(config)}
    file = str(folder / FILE_NAME)
    tensors = read_folder(folder)
    arrays = {
        name: tensor.numpy()
        for name, tensor in tensors.items()
        if PART in name and tensor.dtype != torch.bfloat16  # numpy has none, and we write none
    }
    few: dict[str, Quantised] = {}
    for name in places:
        try:
            matrix = from_arrays(name, arrays)
        except InputError as error:
            raise FileError(f"{file}: {error}") from None
        if matrix is not None:
            few[name] = matrix
            tensors[name] = torch.from_numpy(matrix.numbers())
    return assemble(config, places, tensors, file=file, dtype=dtype), few
