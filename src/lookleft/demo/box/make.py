"""From a finished run to the folder that is shipped: quantised, measured, described, put there."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from lookleft.audit.verdict import Verdict
from lookleft.bundle import load
from lookleft.config import EncoderDecoderConfig
from lookleft.demo.box.card import TRAINING, Facts, to_markdown
from lookleft.demo.box.measure import measure
from lookleft.demo.box.origins import check_free
from lookleft.errors import FileError, InputError
from lookleft.files import make_folder, sync_folder, write_atomically
from lookleft.train.settings import RunSettings, Spec
from lookleft.train.settings_file import read_settings, write_settings

MAX_BYTES = 12_000_000  # of the whole folder: it comes with every installation
CARD = "README.md"


def make_box(
    run: Path,
    data: Path,
    place: Path,
    *,
    is_quick: bool = False,
    say: Callable[[str], None] = lambda line: None,
) -> int:
    """Put the model of a run, in 8 bits and with its card, where `place` says; get its bytes.

    data: the folder of the validation sets. is_quick: a shorter audit. What was there before is
    replaced in one go, and only when everything else has gone well.
    """
    settings = read_settings(run / "config.toml")
    check_free(settings.data)
    clean_up(place)
    begun = place.with_name(f".{place.name}.{secrets.token_hex(4)}.part")
    try:
        make_folder(begun)
        before = load(run)
        if not isinstance(before.network.config, EncoderDecoderConfig):
            raise InputError(f"{run}: is a {before.network.config.family} model, no translator")
        before.save_quantised(begun, "int8")
        write_settings(portable(settings), begun / TRAINING)
        made = load(begun)
        check_size(begun)  # before the long part
        findings = measure(made, data, settings.data.origins, is_quick=is_quick, say=say)
        if findings.report.verdict is Verdict.DISPROVED:
            raise InputError(f"{run}: looks at the future; see `lookleft audit {run}`")
        facts = Facts(settings, made.network.n_parameters, check_size(begun), findings)
        write_atomically(begun / CARD, to_markdown(run, facts).encode("utf-8"))
        n_bytes = check_size(begun)
        replace_folder(begun, place)
        return n_bytes
    finally:
        shutil.rmtree(begun, ignore_errors=True)  # only there when something above failed


def check_size(folder: Path) -> int:
    """The bytes of all files in a folder; raises if they are too many to be shipped."""
    n_bytes = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
    if n_bytes > MAX_BYTES:
        raise FileError(
            f"{folder}: has {n_bytes:,} bytes, the limit is {MAX_BYTES:,}; train a smaller model"
        )
    return n_bytes


def portable(settings: RunSettings) -> RunSettings:
    """The same settings without the paths of one machine: `--data.dir` says where the files lie."""

    def name(spec: Spec) -> Spec:
        return (
            Path(spec).name if isinstance(spec, str) else (Path(spec[0]).name, Path(spec[1]).name)
        )

    data = settings.data
    names = {"dir": None, "train": name(data.train), "dev": data.dev and name(data.dev)}
    return settings.model_copy(update={"data": data.model_copy(update=names)})


def clean_up(place: Path) -> None:
    """Remove what a process that was killed left here; put back what it had set aside."""
    for old in place.parent.glob(f".{place.name}.*.old"):
        if not place.exists():
            os.rename(old, place)
        shutil.rmtree(old, ignore_errors=True)
    for begun in place.parent.glob(f".{place.name}.*.part"):
        shutil.rmtree(begun, ignore_errors=True)


def replace_folder(new: Path, place: Path) -> None:
    """Let `new` be what lies at `place`; what was there is put back if that fails."""
    old = place.with_name(f".{place.name}.{secrets.token_hex(4)}.old")
    try:
        with suppress(FileNotFoundError):
            os.rename(place, old)
        try:
            os.rename(new, place)
        except OSError:
            with suppress(FileNotFoundError):
                os.rename(old, place)
            raise
        sync_folder(place.parent)
    except OSError as error:
        raise FileError(f"{place}: cannot be replaced: {error.strerror}") from error
    shutil.rmtree(old, ignore_errors=True)
