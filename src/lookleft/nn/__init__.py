"""Tensors to tensors: attention, cache, positions, layers. Knows no text and no training."""
