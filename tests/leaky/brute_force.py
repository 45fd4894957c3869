"""What each fault does, shown without the audit: change one thing, run again, compare.

Every probe takes an exhibit and one of its models and returns the largest disagreement between
answers that had to be equal, relative to the size of the answers; 0.0 where the model has nothing
to probe. `PROBES` says which probe belongs to which check of the audit.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from .exhibit import Exhibit
from .parts import IGNORED, Decoder, Output
from .translators import Translator

LENGTH = 13  # longer than every window, chunk and prefix of the museum
VOCAB = 64


def takes(model: nn.Module, name: str) -> bool:
    return name in inspect.signature(model.forward).parameters


def is_continuous(model: nn.Module) -> bool:
    return not hasattr(model, "embed")


def draw(model: nn.Module, rows: int, length: int, seed: int = 0) -> Tensor:
    """Fresh inputs: ids that are never padding, or frames."""
    generator = torch.Generator().manual_seed(seed)
    if is_continuous(model):
        return torch.randn(rows, length, model.width, generator=generator, dtype=torch.float64)
    return torch.randint(1, VOCAB, (rows, length), generator=generator)


def changed(x: Tensor, where: Tensor) -> Tensor:
    """`x` with other content at the marked positions."""
    if x.is_floating_point():
        return torch.where(where[..., None], x + 1.5, x)
    return torch.where(where, x % (VOCAB - 1) + 1, x)


@torch.no_grad()
def run(model: nn.Module, x: Tensor, *, seed: int = 7, **rest: Any) -> Tensor:
    """The outputs per position, whatever the model returns them in."""
    torch.manual_seed(seed)  # the same dropout in every run
    if isinstance(model, Translator):
        rest = {"input_ids": source(x.size(0)), "decoder_input_ids": x, **rest}
        out = model(**rest)
    else:
        out = model(x, **rest)
    return (out.logits if isinstance(out, Output) else out).detach()


def source(rows: int, length: int = 11) -> Tensor:
    return torch.randint(1, VOCAB, (rows, length), generator=torch.Generator().manual_seed(99))


def apart(a: Tensor, b: Tensor) -> float:
    """The largest difference relative to the largest value; NaN and infinity are far apart."""
    if not a.numel():
        return 0.0
    if not bool(torch.isfinite(a).all() and torch.isfinite(b).all()):
        return float("inf")
    return float((a - b).abs().max() / a.abs().max().clamp(min=1e-30))


def backends(model: nn.Module) -> Iterator[None]:
    """The model under each attention backend it has."""
    if not hasattr(model, "set_attn_implementation"):
        yield
        return
    for name in ("eager", "sdpa"):
        model.set_attn_implementation(name)
        yield


@contextmanager
def training(model: nn.Module, mode: bool) -> Iterator[None]:
    model.train(mode)
    try:
        yield
    finally:
        model.eval()


def masks(model: nn.Module, rows: int, length: int) -> list[dict[str, Any]]:
    """No mask, and a mask that says what no mask says."""
    if not takes(model, "attention_mask") or isinstance(model, Translator):
        return [{}]
    return [{}, {"attention_mask": torch.ones(rows, length, dtype=torch.long)}]


def allowed(exhibit: Exhibit, model: nn.Module) -> Tensor:
    """True where output i may use input j under the rule the exhibit declares. (T, T)"""
    name, _, number = str(exhibit.options(model).get("spec", "causal")).partition(":")
    i, j = torch.arange(LENGTH)[:, None], torch.arange(LENGTH)[None, :]
    rules = {
        "causal": lambda: j <= i,
        "window": lambda: (j <= i) & (i - j < int(number)),
        "prefix": lambda: (j <= i) | (j < int(number)),
        "bidirectional": lambda: (j >= 0) & (i >= 0),
    }
    return rules[name]()


def movements(exhibit: Exhibit, model: nn.Module) -> Iterator[Tensor]:
    """How far output i moves when input j alone is changed, in every setting. (T, T)"""
    x = draw(model, 1, LENGTH).expand(LENGTH, *[-1] * (2 if is_continuous(model) else 1))
    one_each = changed(x, torch.eye(LENGTH, dtype=torch.bool))
    wishes = [{}, {"output_attentions": True}] if takes(model, "output_attentions") else [{}]
    for _ in backends(model):
        for mode in (False, True):
            for mask in masks(model, LENGTH, LENGTH):
                for wish in wishes:
                    with training(model, mode):
                        before = run(model, x, **mask, **wish)
                        after = run(model, one_each, **mask, **wish)
                    yield (before - after).abs().amax(-1).T / before.abs().max()  # (T_out, T_in)


def future(exhibit: Exhibit, model: nn.Module) -> float:
    """K1: outputs that move though the changed input is hidden from them."""
    hidden = ~allowed(exhibit, model)
    if not hidden.any():
        return 0.0
    return max(float(moved[hidden].max()) for moved in movements(exhibit, model))


def field(exhibit: Exhibit, model: nn.Module) -> float:
    """K8: the share of pairs whose use differs from what a window or an encoder declares."""
    if "spec" not in exhibit.options(model) or exhibit.options(model)["spec"].startswith("prefix"):
        return 0.0
    want = allowed(exhibit, model)
    return max(float(((moved > 0) != want).double().mean()) for moved in movements(exhibit, model))


def truncation(exhibit: Exhibit, model: nn.Module) -> float:
    """K2: the outputs of a beginning, alone and with the rest behind it."""
    if exhibit.options(model).get("spec", "causal").startswith(("bi", "prefix")):
        return 0.0
    x = draw(model, 2, LENGTH)
    full = run(model, x)
    return max(apart(full[:, :n], run(model, x[:, :n])) for n in range(1, LENGTH))


def cache(exhibit: Exhibit, model: nn.Module) -> float:
    """K3: step by step, in chunks, rolled back, and with rows exchanged, against all at once."""
    if hasattr(model, "step") and not takes(model, "past_key_values"):
        return stepping(model)
    if not takes(model, "past_key_values"):
        return 0.0
    x = draw(model, 3, LENGTH)
    found = [apart(run(model, x), run(model, x, use_cache=True))]
    for _ in backends(model):
        full = run(model, x)
        for chunks in ([1] * 13, [2, *[1] * 11], [6, *[1] * 7], [12, 1], [4, 5, 4], [1, 12]):
            found.append(apart(full, in_chunks(model, x, chunks)))
        order = torch.tensor([2, 0, 0])
        found.append(apart(full[order, 9:], in_chunks(model, x, [9, 4], order)[:, 9:]))
        found.append(rolled_back(model, x, full))
    return max(found)


@torch.no_grad()
def in_chunks(
    model: nn.Module, x: Tensor, chunks: list[int], order: Tensor | None = None
) -> Tensor:
    torch.manual_seed(7)
    state, outs, start = None, [], 0
    for size in chunks:
        rest = {"input_ids": source(3)[order] if order is not None and start else source(3)}
        name = "decoder_input_ids" if isinstance(model, Translator) else "input_ids"
        now = x if order is None or start == 0 else x[order]
        given = {**rest, name: now[:, start : start + size]}
        out = model(**given, past_key_values=state, use_cache=True)
        state, start = out.past_key_values, start + size
        outs.append(out.logits.detach())
        if order is not None:
            state.reorder_cache(order)
    return torch.cat(outs, 1)


def rolled_back(model: nn.Module, x: Tensor, full: Tensor) -> float:
    if isinstance(model, Translator):
        return 0.0
    state = model(x[:, :9], use_cache=True).past_key_values
    if not hasattr(state, "crop"):
        return 0.0
    state.crop(6)
    return apart(full[:, 6:], model(x[:, 6:], past_key_values=state).logits.detach())


def stepping(model: nn.Module) -> float:
    x, state, outs = draw(model, 3, LENGTH), None, []
    for t in range(LENGTH):
        out, state = model.step(x[:, t], state)
        outs.append(out.detach())
    return apart(run(model, x), torch.stack(outs, 1))


def padded(x: Tensor, pads: list[int], left: bool, fill: int) -> tuple[Tensor, Tensor]:
    """Rows without their last tokens, padded to full length; and where the tokens are."""
    rows = torch.full_like(x, fill)
    is_token = torch.zeros_like(x, dtype=torch.bool)
    for row, n in enumerate(pads):
        at = slice(n, None) if left else slice(0, x.size(1) - n)
        rows[row, at], is_token[row, at] = x[row, : x.size(1) - n], True
    return rows, is_token


def padding(exhibit: Exhibit, model: nn.Module) -> float:
    """K4: a row with padding against the same row without, and against other padding."""
    if isinstance(model, Translator) or not takes(model, "attention_mask"):
        return 0.0
    x, found = draw(model, 3, LENGTH), [0.0]
    for _ in backends(model):
        for mode in (False, True):
            for pads in ([0, 1, 7], [2], [3, 0]):
                for left in (False, True):
                    with training(model, mode):
                        found.append(one_padding(model, x[: len(pads)], pads, left))
    return max(found)


def one_padding(model: nn.Module, x: Tensor, pads: list[int], left: bool) -> float:
    if model.training and getattr(model.config, "attention_dropout", 0.0):
        return 0.0  # other shapes, other dropout
    rows, is_token = padded(x, pads, left, fill=0)
    other, _ = padded(x, pads, left, fill=5)
    out = run(model, rows, attention_mask=is_token.long())
    worst = apart(out[is_token], run(model, other, attention_mask=is_token.long())[is_token])
    for row, n in enumerate(pads):
        alone = run(model, x[row : row + 1, : x.size(1) - n])[0]
        worst = max(worst, apart(alone, out[row][is_token[row]]))
    return worst


def batch(exhibit: Exhibit, model: nn.Module) -> float:
    """K5: a row among others, among strangers, and alone."""
    x, others = draw(model, 3, LENGTH), draw(model, 3, LENGTH, seed=1)
    strangers = torch.cat([others[:2], x[2:]])
    among = run(model, x)
    worst = apart(among[2], run(model, strangers)[2])
    if isinstance(model, Translator):
        return worst
    return max(worst, apart(among[2:], run(model, x[2:])))


def packing(exhibit: Exhibit, model: nn.Module) -> float:
    """K6: documents in one row against documents in rows of their own, outputs and loss."""
    if not takes(model, "position_ids"):
        return 0.0
    lengths, worst = (3, 1, 5, 2), 0.0
    pos = torch.cat([torch.arange(n) for n in lengths])[None]
    for _ in backends(model):
        for rows in (1, 2):
            x = draw(model, rows, sum(lengths))
            for mask in masks(model, rows, sum(lengths)):
                out = run(model, x, position_ids=pos.expand(rows, -1), **mask)
                alone = torch.cat([run(model, part) for part in x.split(lengths, 1)], 1)
                worst = max(worst, apart(alone, out))
            if takes(model, "labels"):
                worst = max(worst, packed_loss(model, x, pos.expand(rows, -1), lengths))
    return worst


def packed_loss(model: nn.Module, x: Tensor, pos: Tensor, lengths: tuple[int, ...]) -> float:
    parts = [part for part in x.split(lengths, 1) if part.size(1) > 1]
    counts = [part.size(0) * (part.size(1) - 1) for part in parts]
    separate = [model(part, labels=part).loss * n for part, n in zip(parts, counts, strict=True)]
    whole = model(x, position_ids=pos, labels=x).loss
    return apart((sum(separate) / sum(counts)).detach()[None], whole.detach()[None])


def encoder_decoder(exhibit: Exhibit, model: nn.Module) -> float:
    """K7: source padding, with and without a cache; and does the source see its own end?"""
    if not isinstance(model, Translator):
        return 0.0
    x, words = draw(model, 2, LENGTH), source(2)
    is_token = torch.ones_like(words, dtype=torch.bool)
    worst = 0.0
    for _ in backends(model):
        for cached in (False, True):
            plain = run(model, x, input_ids=words, use_cache=cached)
            for fill in (0, 9):
                wide = F.pad(words, (0, 4), value=fill)
                mask = F.pad(is_token, (0, 4)).long()
                out = run(model, x, input_ids=wide, attention_mask=mask, use_cache=cached)
                worst = max(worst, apart(plain, out))
        other = words.clone()
        other[:, -1] = words[:, -1] % (VOCAB - 1) + 1
        first, second = model.encode(words, is_token), model.encode(other, is_token)
        worst = max(worst, float(bool((first[:, 0] == second[:, 0]).all())))
    return worst


def labels(exhibit: Exhibit, model: nn.Module) -> float:
    """K9: with a single label the loss is that of exactly one logit position."""
    if not takes(model, "labels"):
        return 0.0
    x, worst = draw(model, 2, LENGTH), 0.0
    for t in range(1, LENGTH):
        target = torch.full_like(x, IGNORED)
        target[1, t] = x[1, t]
        if isinstance(model, Translator):
            given, at = {"input_ids": source(2), "decoder_input_ids": x}, t
        else:
            given, at = {"input_ids": x}, t - 1
        out = model(**given, labels=target)
        want = F.cross_entropy(out.logits[1, at : at + 1], x[1, t : t + 1])
        worst = max(worst, apart(want.detach()[None], out.loss.detach()[None]))
    return worst


def purity(exhibit: Exhibit, model: nn.Module) -> float:
    """K0: the same question twice, with another one in between, under another seed."""
    x, other = draw(model, 3, LENGTH), draw(model, 3, LENGTH, seed=2)
    first = run(copy.deepcopy(model), x)
    used = copy.deepcopy(model)
    run(used, other)
    return apart(first, run(used, x, seed=8))


PROBES: dict[str, Callable[[Exhibit, nn.Module], float]] = {
    "K0": purity,
    "K1": future,
    "K2": truncation,
    "K3": cache,
    "K4": padding,
    "K5": batch,
    "K6": packing,
    "K7": encoder_decoder,
    "K8": field,
    "K9": labels,
}


def coarseness(model: nn.Module) -> float:
    """K11: how far a model in its own dtype is from itself in float64, at distant positions."""
    assert isinstance(model, Decoder)
    x = draw(model, 1, 180)
    exact = copy.deepcopy(model).double()
    return apart(run(exact, x), run(model, x).double())
