"""The kernels of training beside PyTorch's operations: `python -m lookleft.bench.kernels`.

Processor time of one thread, there and back, in turn: other programs disturb both alike.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from lookleft.bench.train import caption_groups
from lookleft.config import EncoderDecoderConfig, Rotary
from lookleft.masks import causal, everything
from lookleft.models import build, presets
from lookleft.nn.attention import Attention
from lookleft.nn.block import Stack
from lookleft.nn.fused import plain_operations, surprise_rows
from lookleft.nn.layers import RMSNorm
from lookleft.train.loss import batch_loss, surprise

VOCAB = 10_000
NEW = {
    "positions": Rotary(),
    "norm": "rms",
    "norm_order": "pre",
    "final_norm": True,
    "qk_norm": True,
    "activation": "relu2",
}
Work = Callable[[], object]


def there_and_back(function: Callable[[Tensor], Tensor], shape: tuple[int, ...]) -> Work:
    """A function of x together with its gradient."""
    x = torch.randn(shape).requires_grad_()
    above = torch.randn_like(function(x))
    return lambda: function(x).backward(above)  # type: ignore[no-untyped-call]


def attention(length: int, n_heads: int = 4, width: int = 32) -> Callable[[Tensor], Tensor]:
    """Causal attention without its four products with weights. (B, T, H*K) -> the same."""
    layer = Attention(n_heads * width, n_heads, n_heads, width)
    layer.to_q = layer.to_k = layer.to_v = layer.to_out = torch.nn.Identity()  # type: ignore[assignment]
    pos = torch.arange(length)[None]
    mask = causal(pos, pos)
    return lambda x: layer(x, layer.keys_values(x), mask)


def works(n_tokens: int) -> Iterator[tuple[str, Work, Work]]:
    """Name, with kernels, with plain operations."""
    n_rows = n_tokens // 16

    def both(name: str, work: Work) -> tuple[str, Work, Work]:
        def plain() -> None:
            with plain_operations():
                work()

        return name, work, plain

    logits, targets = torch.randn(1, n_tokens // 20, VOCAB), torch.arange(n_tokens // 20)
    yield (
        "cross-entropy",
        lambda: surprise_rows(logits.clone(), targets, 0.1),
        lambda: surprise(logits.clone(), targets, 0.1),
    )
    twins = torch.randn(2, n_tokens // 20, VOCAB)
    yield (
        "cross-entropy, two passes",
        lambda: surprise_rows(twins.clone(), targets, 0.1, 2.0),
        lambda: surprise(twins.clone(), targets, 0.1, 2.0),
    )
    yield both("norm, width 128", there_and_back(RMSNorm(128, eps=1e-5), (n_rows, 16, 128)))
    yield both("norm of heads", there_and_back(RMSNorm(32, eps=1e-5), (n_rows, 16, 4, 32)))
    for length in (8, 16, 32, 64):
        shape = (n_tokens // length, length, 128)
        yield both(f"attention, length {length}", there_and_back(attention(length), shape))
    paper, new = (presets.tiny(VOCAB).model_copy(update=update) for update in ({}, NEW))
    yield both("a layer, paper's", there_and_back(layer(paper), (n_rows, 16, 128)))
    yield both("a layer, rotary and RMSNorm", there_and_back(layer(new), (n_rows, 16, 128)))
    yield both("a step, paper's layers", step(paper, n_tokens))
    yield both("a step, rotary and RMSNorm", step(new, n_tokens))


def layer(config: EncoderDecoderConfig) -> Callable[[Tensor], Tensor]:
    """One layer of an encoder with its norms. (B, T, D) -> the same."""
    stack = Stack(config, 1, is_bidirectional=True).train()

    def through(x: Tensor) -> Tensor:
        pos = torch.arange(x.size(1)).expand(x.shape[:2])
        view = stack.view(everything(x.size(1), x.size(1)), pos, pos)
        out: Tensor = stack(x, pos, view)
        return out

    return through


def step(config: EncoderDecoderConfig, n_tokens: int) -> Work:
    """Loss and gradient of two micro-batches of captions."""
    model = build(config, torch.Generator().manual_seed(0)).train()
    group = caption_groups(1, n_tokens, 2)[0]

    def work() -> None:
        model.zero_grad(set_to_none=True)
        for batch in group:
            batch_loss(model, batch, 0.1).backward()  # type: ignore[no-untyped-call]

    return work


def measure(rounds: int, n_tokens: int = 4096) -> Iterator[str]:
    """A line for each kernel: median milliseconds without it and with it, and the ratio."""
    for name, kernel, plain in works(n_tokens):
        seconds: dict[Work, list[float]] = {plain: [], kernel: []}
        for number in range(rounds + 1):  # the first round warms up
            for work, times in seconds.items():
                began = time.process_time()
                work()
                if number:
                    times.append(time.process_time() - began)
        before, after = (1e3 * statistics.median(times) for times in seconds.values())
        yield f"{name:28} {before:8.2f} -> {after:8.2f} ms   {before / after:.2f} times"


def main(rounds: str = "7") -> None:
    """Measure on one thread and print."""
    torch.set_num_threads(1)
    for line in measure(int(rounds)):
        sys.stdout.write(f"{line}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:2])
