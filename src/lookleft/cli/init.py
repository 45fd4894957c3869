"""`lookleft init`: a commented config and a small data set, so that training works at once."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from lookleft.cli.recipes import CONFIG
from lookleft.errors import FileError, InputError

if TYPE_CHECKING:
    from lookleft.data.phrases import PhrasePair

N_TRAIN, N_HELD_OUT = 1_800, 100
LICENSE = """The sentences in this folder were made by the grammar that comes with lookleft.
They may be used as lookleft may: Apache-2.0.
"""
HEAD = """# Every option of a run with its meaning. Those that begin with "# " are unset.
#
#   lookleft check {file}
#   lookleft train {file}

"""
# What a first run wants otherwise than a long one: an answer within minutes.
QUICK: dict[str, Any] = {
    "text.vocab_size": 1_000,
    "model.n_layers": 2,
    "train.steps": 1_000,
    "train.tokens": 2_048,
    "train.warmup": 100,
    "train.eval_every": 100,
    "train.save_every": 200,
    "train.log_every": 20,
    "train.eval_sentences": 100,
}


def init(
    folder: Path,
    *,
    task: Literal["translate", "lm", "mlm"] = "translate",
    src: str = "en",
    tgt: str = "hi",
    json_: Annotated[bool, Parameter(name="--json", negative="")] = False,
) -> None:
    """Write a config with every option, and a small data set to try it on.

    Examples:
      lookleft init demo
      lookleft init demo --task lm --tgt en

    Parameters
    ----------
    folder
        Where to; it must not be there, or be empty.
    task
        translate: a translator. lm: a language model. mlm: a masked-token model.
    src
        Language to translate from: en or hi.
    tgt
        Language to translate to, or of the text of a language model: en or hi.
    json_
        Print {"config", "data", "counts", "next"}.
    """
    check_languages(task, src, tgt)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise FileError(f"{folder}: is there already and not empty; give another folder")
    from lookleft.files import make_folder, write_atomically
    from lookleft.train.corpora import built_in
    from lookleft.train.keys import commented_toml

    made = built_in()
    parts = {
        "train": made.train[:N_TRAIN],
        "dev": made.dev[:N_HELD_OUT],
        "test": made.test[:N_HELD_OUT],
    }
    ending = "tsv" if task == "translate" else "txt"
    values = {"task": task, "data.dir": "data", **QUICK}
    values |= {"data.train": f"train.{ending}", "data.dev": f"dev.{ending}", "data.target": tgt}
    if task == "translate":
        values["data.source"] = src
    make_folder(folder / "data")
    for name, pairs in parts.items():
        text = "".join(_line(pair, task, src, tgt) for pair in pairs)
        write_atomically(folder / "data" / f"{name}.{ending}", text.encode("utf-8"))
    write_atomically(folder / "data" / "LICENSE", LICENSE.encode("utf-8"))
    config = folder / CONFIG
    head = HEAD.format(file=config)
    write_atomically(config, (head + commented_toml(values)).encode("utf-8"))
    sizes, step = {name: len(pairs) for name, pairs in parts.items()}, f"lookleft check {config}"
    if json_:
        found = {"config": str(config), "data": str(folder / "data"), "counts": sizes, "next": step}
        print(json.dumps(found))
        return
    counts = " · ".join(f"{name} {n:,}" for name, n in sizes.items())
    what = "pairs" if task == "translate" else "sentences"
    print(
        f"wrote {config}   every option, with comments\n"
        f"wrote {folder / 'data'}   example {what} ({counts}), licence in "
        f"{folder / 'data' / 'LICENSE'}\n"
        f"next:  {step}",
        file=sys.stderr,
    )


def check_languages(task: str, src: str, tgt: str) -> None:
    """Raise if the built-in grammar cannot make text of these languages."""
    wanted = [src, tgt] if task == "translate" else [tgt]
    unknown = [code for code in wanted if code not in ("en", "hi")]
    if unknown:
        raise InputError(
            f"language {unknown[0]!r}: the built-in text is English (en) and Hindi (hi). For your "
            f"own files copy a recipe: lookleft cp multi30k-en-de my.toml"
        )
    if task == "translate" and src == tgt:
        raise InputError(f"--src {src} --tgt {tgt}: there is nothing to translate")


def _line(pair: PhrasePair, task: str, src: str, tgt: str) -> str:
    sides = {"en": pair.english, "hi": pair.hindi}
    return f"{sides[src]}\t{sides[tgt]}\n" if task == "translate" else f"{sides[tgt]}\n"
