"""The folder of a run before its first step, and whether it may go on after a pause."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Callable
from pathlib import Path

from lookleft.bundle import SOURCE_FOLDER
from lookleft.errors import ConfigError, FileError
from lookleft.files import check_writable, make_folder, read_json, sync_folder, write_json
from lookleft.train.corpora import check_dev, fingerprint, is_read_by_language
from lookleft.train.data import check_usable, train_source_tokenizer, train_tokenizer
from lookleft.train.device import find_device, find_precision
from lookleft.train.settings import RunSettings, model_config
from lookleft.train.settings_file import read_settings, write_settings
from lookleft.train.team import check_place
from lookleft.train.track import check_trackers
from lookleft.train.world import ALONE, World

Tell = Callable[[str], None]


def say_nothing(line: str) -> None:
    """Where nobody looks, nothing is told."""


def prepare(
    folder: Path, settings: RunSettings, n_processes: int = 1, tell: Tell = say_nothing
) -> None:
    """Make the folder of a run with all that its processes need: settings, tokenizer, data marks.

    All that can be wrong is tried before: a wrong setting leaves nothing behind. What takes long is
    told.
    """
    folder = folder.absolute()  # "." has no name that another could be made of
    try:
        str(folder).encode()
    except UnicodeEncodeError:  # logs, card and report carry the name
        shown = str(folder).encode(errors="surrogateescape").decode(errors="replace")
        raise FileError(f"{shown}: the name is not UTF-8: give another --out") from None
    check_writable(folder)
    if folder.exists() and any(folder.iterdir()):
        raise FileError(
            f"{folder}: is not empty. To go on with it: --resume; else give another --out"
        )
    check_trackers(settings.train.track)
    check_place(find_device(settings.train.device), n_processes)
    marks = fingerprint(settings.data)
    check_dev(settings)
    tell("learning a tokenizer ...")
    tokenizer = train_tokenizer(settings)
    source = train_source_tokenizer(settings)
    model_config(settings, len(tokenizer), tokenizer.specials.require("bos"))
    check_usable(settings, tokenizer, source, n_processes)
    is_there = folder.exists()
    name = f".{folder.name}.{secrets.token_hex(4)}.part"
    begun = folder / name if is_there else folder.with_name(name)
    try:
        make_folder(begun)
        tokenizer.save(begun)
        if source is not None:
            source.save(begun / SOURCE_FOLDER)
        write_json(begun / "data.json", marks)
        write_settings(settings, begun / "config.toml")
        if is_there:  # it may be where someone stands, or a disk of its own: it stays
            _move_into(folder, begun)
        else:
            os.replace(begun, folder)  # all of it or nothing: half a run could not be taken up
            sync_folder(folder.parent)
    except OSError as error:
        raise FileError(f"{folder}: cannot be made: {error.strerror}") from error
    finally:
        shutil.rmtree(begun, ignore_errors=True)  # only there when something above failed


def _move_into(folder: Path, begun: Path) -> None:
    """Move what was begun into a folder; its config.toml last, which makes it a run."""
    for file in sorted(begun.iterdir(), key=lambda file: file.name == "config.toml"):
        os.replace(file, folder / file.name)
    sync_folder(folder)


def settled(settings: RunSettings, world: World = ALONE) -> RunSettings:
    """The settings with what depends on the machine found out, so that a run keeps it.

    Processes on unlike machines compute alike: bfloat16 only if all have units for it.
    """
    train = settings.train
    if train.precision != "auto":
        return settings
    with world.agreed():
        found = find_precision(train.precision, find_device(train.device))
    return settings.with_precision("float32" if world.is_any(found == "float32") else found)


def is_begun_with(folder: Path, settings: RunSettings) -> bool:
    """Whether the run in a folder has these settings, and the data is still what it was."""
    begun = read_settings(folder / "config.toml")
    if settings.as_begun(begun) != begun:
        return False
    try:
        check_unchanged(folder, settings)
    except ConfigError:
        return False
    return True


def check_unchanged(folder: Path, settings: RunSettings) -> None:
    """Raise if the data is not what it was when the run was begun, or has another part in it."""
    before = read_json(folder / "data.json", max_bytes=1_000_000, max_depth=2)
    for name, mark in fingerprint(settings.data).items():
        if name not in before:
            raise ConfigError(
                f"{name}: is not what {folder} was begun with ({', '.join(before)}), so what it "
                f"measured would not compare. Leave the data as it was, or begin a new run"
            )
        if before[name] != mark:
            raise ConfigError(
                f"{name}: has changed since {folder} was begun, so the run cannot go on as it "
                f"would have. Put the file back, or begin a new run"
            )
    kept, now = read_settings(folder / "config.toml").data, settings.data
    is_turned = kept.languages != now.languages and is_read_by_language(now)
    for key, is_other in (
        ("data.train", kept.train != now.train),
        ("data.dev", now.dev_set is not None and kept.dev_set != now.dev_set),
        ("data.source, data.target", is_turned),
    ):
        if is_other:
            raise ConfigError(
                f"{key}: cannot be changed in a run that is begun ({folder}): it would learn other "
                f"text than before, or be measured on it. Leave it, or begin a new run"
            )
