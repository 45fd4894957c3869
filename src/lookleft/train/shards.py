"""Tensors in one file, or in one file per process: each writes the rows that it holds.

Rows are put together in the order of the processes; what has no rows (a count) is the same in
all of them. So a reader needs no plan of who held what, and any number of processes can read
what any other number wrote, each its own rows and no more.
"""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor

from lookleft.errors import FileError
from lookleft.tensors import TensorFile
from lookleft.train.team import is_cut, part


def file_name(stem: str, rank: int = 0, size: int = 1) -> str:
    """model.safetensors, or model-00001-of-00002.safetensors."""
    return (
        f"{stem}.safetensors" if size == 1 else f"{stem}-{rank + 1:05d}-of-{size:05d}.safetensors"
    )


def own_rows(n_rows: int, rank: int, size: int) -> tuple[int, int]:
    """First row and the one behind the last that a process holds of a tensor that is cut."""
    each = -(-n_rows // size)
    return min(rank * each, n_rows), min((rank + 1) * each, n_rows)


class Shards:
    """The tensors of all files of one stem in a folder, as if they lay in one."""

    def __init__(self, folder: Path, stem: str, n_files: int) -> None:
        self.folder = folder
        self._files = [TensorFile(folder / file_name(stem, i, n_files)) for i in range(n_files)]

    def names(self) -> list[str]:
        return list(self._files[0].entries)

    def shape(self, name: str) -> tuple[int, ...]:
        """The shape of the whole."""
        shapes = [file.entries[name].shape for file in self._files if name in file.entries]
        if not shapes:
            raise FileError(f"{self.folder}: belongs to another model: it has no {name!r}")
        if not shapes[0]:
            return ()
        return (sum(shape[0] for shape in shapes), *shapes[0][1:])

    def read(self, name: str) -> Tensor:
        """The whole tensor."""
        shape = self.shape(name)
        return self.read_rows(name, 0, shape[0]) if shape else self._files[0].read(name)

    def read_rows(self, name: str, start: int, stop: int) -> Tensor:
        """Rows start to stop of the whole, from the files they lie in."""
        pieces, first = [self._files[0].read_rows(name, 0, 0)], 0
        for file in self._files:
            n_rows = file.entries[name].shape[0] if name in file.entries else 0
            low, high = max(start - first, 0), min(stop - first, n_rows)
            if low < high:
                pieces.append(file.read_rows(name, low, high))
            first += n_rows
        return torch.cat(pieces)

    def read_like(self, name: str, pattern: Tensor, rank: int, size: int) -> Tensor:
        """What this process holds of the tensor, if it is cut as `pattern` is."""
        shape = self.shape(name)
        if shape and shape != tuple(pattern.shape):
            raise FileError(
                f"{self.folder}: belongs to another model: its {name!r} is {shape}, the one here "
                f"{tuple(pattern.shape)}"
            )
        if not shape or not is_cut(pattern):
            return self.read(name)
        rows = self.read_rows(name, *own_rows(shape[0], rank, size))
        assert rows.shape == part(pattern).shape, "cut as torch cuts"
        return rows
