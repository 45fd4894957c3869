"""What a TARGET on the command line names, brought into memory."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from lookleft.bundled import find_model
from lookleft.errors import FileError, LookleftError, MissingExtraError

_FORMS = (
    "write module:factory, file.py:factory, transformers:ClassName, model.gguf, en-hi, or a folder "
    "with config.json and model.safetensors"
)


class TargetError(LookleftError):
    """A TARGET that names nothing, or something that cannot be brought up."""

    exit_code = 3


def load_target(target: str, *, seed: int = 0) -> Callable[..., Any]:
    """The model (or function) a TARGET names; random weights are drawn from `seed`."""
    import torch

    torch.manual_seed(seed)
    path = find_model(target)
    if path.is_dir():
        return _from_folder(path)
    if target.endswith(".gguf"):
        return _from_lookleft(Path(target))
    place, colon, name = target.rpartition(":")
    if not colon or not place or not name:
        raise TargetError(f"{target!r} is no folder and no factory: {_FORMS}")
    if place == "transformers":
        from lookleft.audit.zoo.build import build_tiny

        return build_tiny(name, seed=seed)
    return _build(target, _find(target, _import(target, place), name))


def _import(target: str, place: str) -> ModuleType:
    """The module, with the current directory importable as it is for `python -m`."""
    if "" not in sys.path and str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    try:
        return (
            _import_file(Path(place)) if place.endswith(".py") else importlib.import_module(place)
        )
    except TargetError:
        raise
    except ModuleNotFoundError as error:
        if error.name and (place == error.name or place.startswith(f"{error.name}.")):
            raise TargetError(
                f"no module {place!r} for {target!r} can be imported from {Path.cwd()}: {_FORMS}"
            ) from error
        raise TargetError(_stopped(f"importing {place}", error)) from error
    except (Exception, SystemExit) as error:
        raise TargetError(_stopped(f"importing {place}", error)) from error


def _import_file(path: Path) -> ModuleType:
    if not path.is_file():
        raise TargetError(f"no file {path}: {_FORMS}")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    folder = str(path.resolve().parent)
    if folder not in sys.path:
        sys.path.insert(0, folder)  # its neighbours, as when the file is run
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module  # dataclasses and inspect look their module up
    spec.loader.exec_module(module)
    return module


def _find(target: str, module: ModuleType, name: str) -> Any:
    found: Any = module
    for part in name.split("."):
        if not hasattr(found, part):
            offers = [key for key, value in vars(module).items() if _is_own(value, module)]
            raise TargetError(
                f"{module.__name__} has no {name!r} (asked for by {target!r}); "
                f"it offers {', '.join(offers) or 'no function or class of its own'}"
            )
        found = getattr(found, part)
    return found


def _is_own(value: Any, module: ModuleType) -> bool:
    return callable(value) and getattr(value, "__module__", None) == module.__name__


def _build(target: str, factory: Any) -> Callable[..., Any]:
    from torch import nn

    if isinstance(factory, nn.Module):
        return factory
    if not callable(factory):
        raise TargetError(f"{target!r} is a {type(factory).__name__}, not a factory to call")
    needed = _required(factory)
    if needed:
        raise TargetError(
            f"{target!r} cannot be called without arguments (it needs {', '.join(needed)}): "
            "name a function that takes none and returns the model"
        )
    try:
        model = factory()
    except (Exception, SystemExit) as error:
        raise TargetError(_stopped(f"calling {target}", error)) from error
    if not callable(model):
        raise TargetError(
            f"{target!r} returned {type(model).__name__}, not a torch module or a function"
        )
    return model  # type: ignore[no-any-return]


def _required(factory: Callable[..., Any]) -> list[str]:
    try:
        parameters = inspect.signature(factory).parameters.values()
    except ValueError:  # built in, and silent about what it takes
        return []
    optional = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return [p.name for p in parameters if p.default is p.empty and p.kind not in optional]


def _stopped(doing: str, error: BaseException) -> str:
    return f"{doing} stopped with {describe(error)}"


def describe(error: BaseException) -> str:
    """Kind, text and place of an error that somebody else's code raised."""
    frames = traceback.extract_tb(error.__traceback__)
    place = f" ({frames[-1].filename}:{frames[-1].lineno})" if frames else ""
    if isinstance(error, SyntaxError) and error.filename:
        place = f" ({error.filename}:{error.lineno})"
    text = error.msg if isinstance(error, SyntaxError) else str(error)
    return f"{type(error).__name__}: {text}{place}"


def _from_folder(folder: Path) -> Callable[..., Any]:
    """A model folder: lookleft's own, or Hugging Face's."""
    from lookleft.interop.hf.folder import read_config

    if (folder / "model" / "config.json").is_file():  # a run of ours keeps its model there
        return _from_lookleft(folder)
    config_file = folder / "config.json"
    if not config_file.is_file():
        raise FileError(f"{folder} holds no config.json, so it is no model folder: {_FORMS}")
    if not any(folder.glob("*.safetensors")):
        raise FileError(f"{folder} holds no .safetensors weights (no other weights are read)")
    config = read_config(folder)
    if "model_type" not in config:
        raise FileError(f"{config_file} names no model_type, so nobody can tell what to build")
    if config["model_type"] == "lookleft":
        return _from_lookleft(folder)
    return _from_transformers(folder, config.get("architectures") or [])


def _from_lookleft(path: Path) -> Callable[..., Any]:
    from lookleft.bundle import load

    return load(path).audit_subject()


def _from_transformers(folder: Path, architectures: list[str]) -> Callable[..., Any]:
    try:
        import transformers
    except ImportError as error:
        raise MissingExtraError(f"reading {folder}", "hf", "transformers") from error
    classes = (getattr(transformers, str(name), None) for name in architectures)
    builder = next((found for found in classes if found), transformers.AutoModelForCausalLM)
    transformers.utils.logging.disable_progress_bar()
    try:
        model = builder.from_pretrained(
            str(folder), local_files_only=True, trust_remote_code=False, use_safetensors=True
        )
    except Exception as error:
        raise FileError(f"transformers cannot read {folder}: {describe(error)}") from error
    return model  # type: ignore[no-any-return]
