"""Whether parts of a network are as this package made them, and nobody listens to them.

A kernel that does the work of several modules never calls them: what somebody has replaced, hooked
or wrapped would be passed over without a word.
"""

from __future__ import annotations

import torch
from torch import nn
from torch.nn.modules import module as torch_modules

from lookleft.nn.attention import Attention, ignore
from lookleft.nn.layers import FeedForward, RMSNorm
from lookleft.nn.narrow import Linear


def is_attention_as_made(layer: nn.Module, ways: tuple[str, ...]) -> bool:
    """Attention with these of its products, and its norms of queries and keys."""
    if not (is_as_made(layer, Attention) and isinstance(layer, Attention)):
        return False
    norms = [norm for norm in (layer.norm_q, layer.norm_k) if norm is not None]
    return (
        layer.tap is ignore
        and all(is_as_made(getattr(layer, way), Linear) for way in ways)
        and all(is_as_made(norm, RMSNorm) and norm.eps is not None for norm in norms)
    )


def is_feed_as_made(layer: nn.Module) -> bool:
    """A feed-forward with its products."""
    if not (is_as_made(layer, FeedForward) and isinstance(layer, FeedForward)):
        return False
    return all(is_as_made(linear, Linear) for linear in (*layer.ways_in, layer.to_out))


def is_norm_as_made(norm: nn.Module) -> bool:
    """A norm over the width, with a weight."""
    return (
        is_as_made(norm, nn.LayerNorm, RMSNorm)
        and isinstance(norm.weight, nn.Parameter)
        and norm.weight.ndim == 1
        and norm.eps is not None
    )


def is_as_made(module: nn.Module, *kinds: type[nn.Module]) -> bool:
    """A module of just these kinds on plain float32 weights, without hooks."""
    return (
        type(module) in kinds
        and not module.__dict__.keys() & vars(type(module)).keys()  # no method of its own
        and not module._forward_hooks
        and not module._forward_pre_hooks
        and not module._backward_hooks
        and not module._backward_pre_hooks
        and all(
            type(each) is nn.Parameter and each.dtype == torch.float32 and each.device.type == "cpu"
            for each in module._parameters.values()
            if each is not None
        )
    )


def does_anyone_listen_to_all() -> bool:
    """Whether hooks are set that hear every module there is."""
    return bool(
        torch_modules._global_forward_hooks
        or torch_modules._global_forward_pre_hooks
        or torch_modules._global_backward_hooks
        or torch_modules._global_backward_pre_hooks
    )
