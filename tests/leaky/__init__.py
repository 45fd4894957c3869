"""The museum: models broken on purpose, one fault each, beside twins without the fault.

Every fault was made in public at least once. The audit has to name each of them and to leave the
twins in peace; `tests/test_leaky.py` shows by brute force that both are what they claim to be.
"""

from __future__ import annotations

from . import (
    caches,
    encoders,
    labels,
    masks_missing,
    masks_wrong,
    offsets,
    packing,
    padding,
    time_mixing,
    windows,
)
from .exhibit import Exhibit

GROUPS: dict[str, tuple[Exhibit, ...]] = {
    "Masks that were never applied": masks_missing.EXHIBITS,
    "Masks that hid the wrong thing": masks_wrong.EXHIBITS,
    "Time mixed elsewhere": time_mixing.EXHIBITS,
    "Caches": caches.EXHIBITS,
    "Windows and chunks": windows.EXHIBITS,
    "Positions": offsets.EXHIBITS,
    "Padding and batches": padding.EXHIBITS,
    "Packed documents": packing.EXHIBITS,
    "Encoders and cross-attention": encoders.EXHIBITS,
    "Labels, modes and dtypes": labels.EXHIBITS,
}
EXHIBITS: tuple[Exhibit, ...] = tuple(exhibit for group in GROUPS.values() for exhibit in group)

__all__ = ["EXHIBITS", "GROUPS", "Exhibit"]
