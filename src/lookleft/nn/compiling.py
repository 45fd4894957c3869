"""How kernels are compiled, and where machine code is kept between runs.

Importing this file imports Numba: do so only where kernels are about to be used.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import numba
from numba.extending import intrinsic

Function = TypeVar("Function", bound=Callable[..., Any])

# What a compiled sum may do: be reordered and contracted. Infinities and NaN keep their meaning.
FREEDOMS = {"reassoc", "contract", "arcp", "nsz"}

# The files beside this one whose functions are compiled.
COMPILED_FILES = ("arithmetic", "attending", "compiling", "entropy", "kernels")


def compiled(function: Function) -> Function:
    """The function for use by compiled code; on its own it compiles when first called."""
    made: Function = numba.njit(fastmath=FREEDOMS, error_model="numpy", nogil=True)(function)
    return made


def inlined(function: Function) -> Function:
    """The function for use by compiled code, as a part of each that calls it and never apart.

    The process that compiles has a second copy of a function that is called, the one made for the
    function alone, and calls that; one that loads machine code from disk calls the copy made for
    its caller. Sums may be ordered otherwise in the two, so training would not repeat to the bit.
    """
    made: Function = numba.njit(
        fastmath=FREEDOMS, error_model="numpy", nogil=True, forceinline=True
    )(function)
    return made


def instruction(generate: Callable[..., Any]) -> Callable[..., Any]:
    """A function for compiled code whose LLVM code is written by hand."""
    made: Callable[..., Any] = intrinsic(generate)
    return made


def kernel(*signatures: str) -> Callable[[Function], Function]:
    """Compiles a function of this package for such arguments at once, or takes it from disk."""

    def compile_it(function: Function) -> Function:
        with kernel_cache(kernel_folder()) as is_kept:
            made: Function = numba.njit(
                list(signatures), nogil=True, cache=is_kept, fastmath=FREEDOMS, error_model="numpy"
            )(function)
            return made

    return compile_it


def cache_folder(files: Sequence[Path]) -> Path:
    """The folder of the machine code of kernels that are written in these files.

    Its name carries a hash of them: Numba looks only at the file of the outermost function and
    would take up stale code when another one has changed.
    """
    chosen = os.environ.get("NUMBA_CACHE_DIR") or os.environ.get("XDG_CACHE_HOME")
    home = Path(chosen) if chosen else Path.home() / ".cache"
    digest = hashlib.sha256()
    for file in files:
        digest.update(file.read_bytes())
    digest.update(numba.__version__.encode())
    return home / "lookleft" / f"kernels-{digest.hexdigest()[:16]}"


def kernel_folder() -> Path:
    """The folder of the kernels of this package."""
    return cache_folder([Path(__file__).with_name(f"{name}.py") for name in COMPILED_FILES])


@contextmanager
def kernel_cache(folder: Path) -> Iterator[bool]:
    """Functions compiled inside with `cache` are kept in this folder.

    Gives whether they can be: where nothing can be written they are compiled in every process.
    """
    before = numba.config.CACHE_DIR
    numba.config.CACHE_DIR = str(folder)
    try:
        yield can_keep(folder)
    finally:
        numba.config.CACHE_DIR = before


def can_keep(folder: Path) -> bool:
    """Whether files can be written into this folder, which is made if it is missing."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return False
    return os.access(folder, os.W_OK)


def is_compiled(folder: Path) -> bool:
    """Whether kernels wait in this folder: if not, the first use takes some seconds."""
    return any(folder.rglob("*.nbi"))
