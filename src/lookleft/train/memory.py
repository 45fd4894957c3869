"""Memory that one step frees is memory that the next one asks for."""

from __future__ import annotations

import ctypes
import gc
from collections.abc import Iterator
from contextlib import contextmanager

_TRIM, _MMAP = -1, -3  # the names of mallopt's options in glibc, malloc.h
_USUAL, _LARGEST = 128 * 2**10, 32 * 2**20  # bytes; glibc sets no more for _MMAP


@contextmanager
def kept_memory() -> Iterator[None]:
    """Inside, what is freed stays with the process, which every step fills alike.

    Else glibc gives large blocks back and gets them anew, and each page of a new block has to be
    found, and set to zero, by the kernel. Where there is no glibc, that does not change.

    Nor does Python look again and again for garbage among all that was there before.
    """
    glibc = find_glibc()
    if glibc is not None:
        glibc.mallopt(_TRIM, 2**31 - 1)
        glibc.mallopt(_MMAP, _LARGEST)
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()
        if glibc is not None:
            glibc.mallopt(_TRIM, _USUAL)
            glibc.mallopt(_MMAP, _USUAL)
            glibc.malloc_trim(0)


def find_glibc() -> ctypes.CDLL | None:
    """The C library of this process, if it is the one whose options these are."""
    try:
        library = ctypes.CDLL(None)
    except (OSError, TypeError):  # not on Windows
        return None
    names = ("gnu_get_libc_version", "mallopt", "malloc_trim")
    return library if all(hasattr(library, name) for name in names) else None
