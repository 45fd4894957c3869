"""Where the engine's machine code is kept; how it is compiled, `nn/compiling.py` says."""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path

from lookleft.nn import arithmetic
from lookleft.nn import compiling as common
from lookleft.nn.compiling import FREEDOMS, compiled, instruction

__all__ = ["FREEDOMS", "compiled", "instruction", "is_compiled", "kernel_cache"]

# The files whose functions are compiled.
COMPILED_FILES = (
    "beams",
    "best",
    "compiling",
    "encode",
    "forward",
    "heads",
    "kernels",
    "layout",
    "lines",
    "records",
    "spin",
    "team",
    "tiles",
    "vectors",
)


def cache_folder() -> Path:
    """The folder of machine code for this version of the kernels."""
    own = [Path(__file__).with_name(f"{name}.py") for name in COMPILED_FILES]
    return common.cache_folder([*own, Path(common.__file__), Path(arithmetic.__file__)])


def kernel_cache() -> AbstractContextManager[bool]:
    """Functions compiled inside are kept in the cache folder, if it gives True."""
    return common.kernel_cache(cache_folder())


def is_compiled() -> bool:
    """Whether the kernels wait on disk: if not, the first use takes some seconds."""
    return common.is_compiled(cache_folder())
