"""`lookleft export`: write a model in another format and check what was written."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from lookleft.errors import FileError

if TYPE_CHECKING:
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

    target = Path(folder)
    if target.exists() and (not target.is_dir() or any(target.iterdir())) and not force:
        raise FileError(f"{target}: is not empty; give a new folder, or add --force")
    bundle = load(model)
    model_type = bundle.save(target, layout=to)
    reader, difference = read_again(bundle.network, target)
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
    print(f"checked   with {reader}: largest difference of logits {difference:.1e}")
    if reader == "lookleft" and to == "hf":
        print(
            "note: transformers is not installed, so lookleft itself read it again; "
            "with pip install 'lookleft[hf]' the original does",
            file=sys.stderr,
        )


def read_again(network: AnyModel, folder: Path) -> tuple[str, float]:
    """Who loaded the folder again, and the largest difference of its logits from the network's."""
    import torch

    from lookleft.bundle import load
    from lookleft.data.batch import Batch, as_rows
    from lookleft.interop.hf.original import is_readable, original_logits
    from lookleft.models import EncoderDecoder

    config, draw = network.config, torch.Generator().manual_seed(0)
    length = min(N_IDS, config.context)
    ids = torch.randint(0, config.vocab_size, (2, length), generator=draw)
    batch = Batch(as_rows(ids))
    if isinstance(network, EncoderDecoder):
        n_source = network.config.source_vocab_size or config.vocab_size
        source = torch.randint(0, n_source, (2, length), generator=draw)
        batch = Batch(as_rows(ids), source=as_rows(source))
    with torch.no_grad():
        if is_readable(folder):
            reader, logits = "transformers", original_logits(folder, batch)
        else:
            reader, logits = "lookleft", load(folder).network.score(batch)
        return reader, float((network.score(batch) - logits).abs().max())
