"""`lookleft quantize`: a model with weights of few bits, and what that costs in quality."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from lookleft.errors import FileError, InputError

if TYPE_CHECKING:
    from lookleft.bundle import Bundle


def quantize(
    model: str,
    *,
    to: Literal["int8", "int4"] = "int8",
    out: str | None = None,
    text: str | None = None,
    force: bool = False,
    json_: Annotated[bool, Parameter(name="--json", negative="")] = False,
) -> None:
    """Write MODEL with weights of 8 or 4 bits into a folder that every other command reads.

    Examples:
      lookleft quantize runs/en-hi
      lookleft quantize model.gguf --to int4 --out small --text some-text.txt

    Parameters
    ----------
    model
        A model folder, a run folder, or a .gguf file.
    to
        int8: 8 bits and a scale per 32 numbers; int4: 4 bits, a scale and an offset per 32.
    out
        Where to write; unset: beside the model, with -int8 or -int4 behind its name.
    text
        A text file on which the loss of quality is measured; for a translator one pair a line,
        source and translation with a tab between.
    force
        Write into a folder that already has files.
    json_
        Print one JSON object: folder, to, bytes, bytes_before; with a text perplexity_before and
        perplexity, and for a translator same_translations, a share.
    """
    from lookleft.bundle import load
    from lookleft.files import look_at

    target = Path(out) if out is not None else default_folder(Path(model), to)
    found = look_at(target)
    if found not in ("nothing", "folder"):
        raise FileError(f"{target}: is a file; give a new folder with --out")
    if found == "folder" and not force and any(target.iterdir()):
        raise FileError(f"{target}: is not empty; give a new folder with --out, or add --force")
    before = load(model)
    texts = None if text is None else read_texts(before, Path(text))
    before.save_quantised(target, to)
    after = load(target)
    facts: dict[str, Any] = {
        "folder": str(target),
        "to": to,
        "bytes": weight_bytes(target),
        "bytes_before": 4 * before.network.n_parameters,
    }
    if texts is not None:
        facts["perplexity_before"] = perplexity(before, texts)
        facts["perplexity"] = perplexity(after, texts)
        if len(texts[0]) == 2:
            facts["same_translations"] = same_translations(before, after, texts)
    if json_:
        print(json.dumps(facts))
        return
    smaller = facts["bytes_before"] / facts["bytes"]
    print(f"written   {target}   {facts['bytes'] / 1e6:.1f} MB, {smaller:.1f} times smaller")
    if texts is not None:
        was, now = facts["perplexity_before"], facts["perplexity"]
        print(f"quality   perplexity {was:.3f} before, {now:.3f} after ({text})")
    if "same_translations" in facts:
        print(
            f"          {facts['same_translations']:.1%} of {len(texts or [])} translations equal"
        )


def default_folder(model: Path, to: str) -> Path:
    """Beside the model: runs/en-hi -> runs/en-hi-int8, model.gguf -> model-int8."""
    if model.suffix == ".gguf":
        return model.with_name(f"{model.stem}-{to}")
    if model.name in ("", ".."):  # "." and ".." stand for a name
        model = model.resolve()
    return model.with_name(f"{model.name}-{to}") if model.name else Path(to)


def weight_bytes(folder: Path) -> int:
    """What the weights in a model folder take."""
    return sum(file.stat().st_size for file in folder.glob("*.safetensors"))


def read_texts(bundle: Bundle, path: Path) -> list[list[str]]:
    """Lines of a file, each in its one or two parts."""
    from lookleft.config import EncoderDecoderConfig
    from lookleft.data.lines import read_lines

    n_parts = 2 if isinstance(bundle.network.config, EncoderDecoderConfig) else 1
    lines = []
    for number, line in read_lines(path):
        if line is None:
            raise InputError(f"{path}:{number}: is too long for one line of text")
        parts = line.split("\t") if n_parts == 2 else [line]
        if len(parts) != n_parts:
            raise InputError(
                f"{path}:{number}: has {len(parts)} parts; a translator is measured on lines of "
                f"a source, a tab and its translation"
            )
        if all(part.strip() for part in parts):
            lines.append(parts)
    if not lines:
        raise InputError(f"{path}: has no text to measure on")
    return lines


def perplexity(bundle: Bundle, texts: list[list[str]]) -> float:
    """Of the model on these texts."""
    from lookleft.evaluate.perplexity import text_surprise, translation_surprise

    if len(texts[0]) == 1:
        return text_surprise(bundle, ["\n".join(line for (line,) in texts)]).perplexity
    sources, references = ([pair[i] for pair in texts] for i in (0, 1))
    return translation_surprise(bundle, sources, references).perplexity


def same_translations(before: Bundle, after: Bundle, texts: list[list[str]]) -> float:
    """The share of sources whose greedy translation is the same."""
    from lookleft.engine import pick_runner
    from lookleft.generate.translate import translate

    sources = [source for source, _ in texts]
    answers = [translate(each, sources, runner=pick_runner(each)) for each in (before, after)]
    n_same: int = sum(a == b for a, b in zip(*answers, strict=True))
    return n_same / len(sources)
