"""How kernels are compiled, and where machine code is kept between runs."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import numba
from numba.extending import intrinsic

Function = TypeVar("Function", bound=Callable[..., Any])

# What a compiled sum may do: be reordered and contracted. Infinities and NaN keep their meaning.
FREEDOMS = {"reassoc", "contract", "arcp", "nsz"}

# The files whose functions are compiled.
COMPILED_FILES = (
    "best",
    "compiling",
    "encode",
    "forward",
    "heads",
    "kernels",
    "records",
    "spin",
    "team",
    "tiles",
)


def compiled(function: Function) -> Function:
    """The function for use by compiled code; on its own it compiles when first called."""
    made: Function = numba.njit(fastmath=FREEDOMS, error_model="numpy", nogil=True)(function)
    return made


def instruction(generate: Callable[..., Any]) -> Callable[..., Any]:
    """A function for compiled code whose LLVM code is written by hand."""
    made: Callable[..., Any] = intrinsic(generate)
    return made


def cache_folder() -> Path:
    """The folder of machine code for this version of the kernels.

    Its name carries a hash of their source: Numba looks only at the file of the outermost function
    and would take up stale code when another one has changed.
    """
    chosen = os.environ.get("NUMBA_CACHE_DIR") or os.environ.get("XDG_CACHE_HOME")
    home = Path(chosen) if chosen else Path.home() / ".cache"
    digest = hashlib.sha256()
    for name in COMPILED_FILES:
        digest.update((Path(__file__).parent / f"{name}.py").read_bytes())
    digest.update(numba.__version__.encode())
    return home / "lookleft" / f"kernels-{digest.hexdigest()[:16]}"


@contextmanager
def kernel_cache() -> Iterator[None]:
    """Functions compiled inside are kept in the cache folder."""
    before = numba.config.CACHE_DIR
    numba.config.CACHE_DIR = str(cache_folder())
    try:
        yield
    finally:
        numba.config.CACHE_DIR = before


def is_compiled() -> bool:
    """Whether the kernels wait on disk: if not, the first use takes some seconds."""
    return any(cache_folder().rglob("*.nbi"))
