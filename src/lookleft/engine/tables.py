"""What positions do, written out as tables that compiled code looks up. They grow when needed.

Dimensions: D model width, H heads, K head width.
"""

from __future__ import annotations

import numpy as np
import torch

from lookleft.engine.weights import Record, as_floats
from lookleft.nn.block import Stack
from lookleft.quantised import Floats

FIRST_SIZE = 256  # positions


class PositionTables:
    """The tables of one stack; their addresses go into its job."""

    def __init__(self, stack: Stack, job: Record) -> None:
        # Not the stack: it would keep its weights in memory.
        self.positions, self.rotary, self.relative = stack.positions, stack.rotary, stack.relative
        self.job, self.size = job, 0
        self.added = self.turns = np.zeros((0, 0), np.float32)
        self.bias = self._distances()
        self.reach(FIRST_SIZE)

    @torch.no_grad()
    def reach(self, n_positions: int) -> None:
        """Make sure that positions 0..n-1 are there."""
        if n_positions <= self.size:
            return
        self.size = max(n_positions, 2 * self.size)
        if self.positions is not None:
            limit = getattr(self.positions, "max_len", self.size)
            pos = torch.arange(min(self.size, limit))
            self.added = as_floats(self.positions(pos, torch.float32))  # (positions, D)
            self.job["added"] = self.added.ctypes.data
        if self.rotary is not None:
            frequencies = self.rotary.frequencies(torch.device("cpu"))  # (K/2,)
            angle = torch.arange(self.size)[:, None].double() * frequencies
            self.turns = as_floats(torch.cat((angle.cos(), angle.sin()), 1))  # (positions, K)
            self.job["turns"] = self.turns.ctypes.data

    @torch.no_grad()
    def _distances(self) -> Floats:
        """The number per distance and head; all beyond `max_distance` share the last. (.., H)."""
        relative = self.relative
        if relative is None:
            return np.zeros((0, 0), np.float32)
        reach = relative.config.max_distance + 1
        ahead = torch.arange(-reach, reach + 1)
        numbers = as_floats(relative.table(relative.bucket(ahead)))  # (2 reach + 1, H)
        self.job["bias"], self.job["bias_reach"] = numbers.ctypes.data, reach
        return numbers
