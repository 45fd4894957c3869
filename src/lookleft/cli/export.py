"""`lookleft export`: write a model in another format and check what was written."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from lookleft.errors import FileError

if TYPE_CHECKING:
    from lookleft.data.batch import Batch, Rows
    from lookleft.models import AnyModel

N_IDS = 16  # length of the text on which the written model is compared


def export(
    model: str,
    folder: str,
    *,
    to: Literal["hf", "lookleft"] = "hf",
    force: bool = False,
    json_: Annotated[bool, Parameter(name="--json", negative="")] = False,
) -> None:
    """Write MODEL into FOLDER, then load the result and print the largest difference.

    Examples:
      lookleft export model.gguf exported --to hf
      lookleft export runs/en-hi exported --to lookleft

    Parameters
    ----------
    model
        A model folder, a run folder, or a .gguf file.
    folder
        Where to write; must be new or empty unless --force is given.
    to
        hf: what Hugging Face transformers reads; lookleft: our own layout.
    force
        Write into a folder that already has files.
    json_
        Print one JSON object: folder, model_type, checked_with, max_difference.
    """
    from lookleft.bundle import load
    from lookleft.files import look_at

    target = Path(folder)
    found = look_at(target)
    if found not in ("nothing", "folder"):
        raise FileError(f"{target}: is a file; give a new folder")
    if found == "folder" and not force and any(target.iterdir()):
        raise FileError(f"{target}: is not empty; give a new folder, or add --force")
    bundle = load(model)
    model_type = bundle.save(target, layout=to)
    reader, output, difference = read_again(bundle.network, target)
    if json_:
        facts = {
            "folder": str(target),
            "model_type": model_type,
            "checked_with": reader,
            "max_difference": difference,
        }
        print(json.dumps(facts))
        return
    print(f"written   {target}   model_type {model_type}")
    print(f"checked   with {reader}: largest difference of {output} {difference:.1e}")
    if reader == "lookleft" and to == "hf":
        print(
            "note: transformers is not installed, so lookleft itself read it again; "
            "with pip install 'lookleft[hf]' the original does",
            file=sys.stderr,
        )


def read_again(network: AnyModel, folder: Path) -> tuple[str, str, float]:
    """Who loaded the folder again, what was compared, and the largest difference of it."""
    import torch

    from lookleft.bundle import load
    from lookleft.interop.hf.folder import read_config
    from lookleft.interop.hf.original import is_readable, original_output
    from lookleft.models import EncoderOnly

    is_headless = isinstance(network, EncoderOnly) and not network.config.head_transform
    pad_id = read_config(folder).get("pad_token_id")
    batch = sample(network, -1 if pad_id is None else pad_id)

    def output(model: AnyModel) -> torch.Tensor:
        return model.states(batch) if is_headless else model.score(batch)

    with torch.no_grad():
        if is_readable(folder):
            reader, written = "transformers", original_output(folder, batch)
        else:
            reader, written = "lookleft", output(load(folder).network)
        difference = float((output(network) - written).abs().max())
    return reader, "states" if is_headless else "logits", difference


def sample(network: AnyModel, pad_id: int) -> Batch:
    """Two rows of random ids for this network, none of them padding.

    Some classes of transformers (M2M100) take an id for padding wherever it stands.
    """
    import torch

    from lookleft.data.batch import Batch, as_rows
    from lookleft.models import EncoderDecoder

    config, draw = network.config, torch.Generator().manual_seed(0)

    def rows(vocab_size: int) -> Rows:
        ids = torch.randint(0, vocab_size, (2, min(N_IDS, config.context)), generator=draw)
        return as_rows(torch.where(ids == pad_id, (ids + 1) % vocab_size, ids))

    if not isinstance(network, EncoderDecoder):
        return Batch(rows(config.vocab_size))
    source = rows(network.config.source_vocab_size or config.vocab_size)
    return Batch(rows(config.vocab_size), source=source)
