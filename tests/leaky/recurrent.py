"""An honest little recurrent model: a short convolution, then a decaying memory."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from .parts import Config, Output

KERNEL = 4  # taps of the short convolution


class Memory:
    """What every layer remembers of the past: its last inputs and its decaying sum."""

    def __init__(self) -> None:
        self.layers: list[tuple[Tensor, Tensor]] = []  # (B, KERNEL - 1, D), (B, D)
        self.length = 0

    def get_seq_length(self, layer: int = 0) -> int:
        return self.length

    def reorder_cache(self, rows: Tensor) -> None:
        self.layers = [(recent[rows], total[rows]) for recent, total in self.layers]


class Mixer(nn.Module):
    """Reads the tokens of a row in order; padding neither counts nor passes time."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        width = config.hidden_size
        self.taps = nn.Parameter(torch.randn(KERNEL, width) / 2)
        self.decay = nn.Parameter(torch.randn(width))
        self.to_out = nn.Linear(width, width)

    def forward(
        self, x: Tensor, is_token: Tensor, starts: Tensor, state: tuple[Tensor, Tensor] | None
    ) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        rows, _, width = x.shape
        recent, total = x.new_zeros(rows, KERNEL - 1, width), x.new_zeros(rows, width)
        if state is not None:
            recent, total = state
        keep, sums = self.decay.sigmoid(), []
        for t in range(x.size(1)):
            here, begins = is_token[:, t, None], starts[:, t, None]
            recent = recent.masked_fill(begins[..., None], 0.0)
            total = total.masked_fill(begins, 0.0)
            window = torch.cat([recent, x[:, t : t + 1]], 1)  # (B, KERNEL, D)
            filtered = (window * self.taps).sum(1).tanh()  # (B, D)
            total = torch.where(here, keep * total + filtered, total)
            recent = torch.where(here[..., None], window[:, 1:], recent)
            sums.append(total)
        return self.to_out(torch.stack(sums, 1)), (recent, total)


class Layer(nn.Module):
    def __init__(self, mixer: nn.Module, width: int) -> None:
        super().__init__()
        self.norm, self.mixer = nn.LayerNorm(width), mixer

    def forward(self, x: Tensor, is_token: Tensor, starts: Tensor, state: Any) -> Any:
        mixed, state = self.mixer(self.norm(x), is_token, starts, state)
        return x + mixed, state


class Recurrent(nn.Module):
    """Tokens to logits; the state plays the part of the cache, and one step can be taken alone."""

    mixer: type[nn.Module] = Mixer

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        width = config.hidden_size
        self.embed = nn.Embedding(config.vocab_size, width)
        self.layers = nn.ModuleList(
            Layer(self.mixer(config), width) for _ in range(config.num_hidden_layers)
        )
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, config.vocab_size)

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        position_ids: Tensor | None = None,
        past_key_values: Memory | None = None,
        use_cache: bool | None = None,
    ) -> Output:
        memory = past_key_values
        if memory is None and use_cache:
            memory = Memory()
        length = input_ids.size(1)
        is_token = torch.ones_like(input_ids, dtype=torch.bool)  # (B, T)
        if attention_mask is not None:
            is_token = self.real(attention_mask[:, -length:].bool())
        starts = self.starts(position_ids, is_token)
        states = (
            memory.layers if memory is not None and memory.layers else [None] * len(self.layers)
        )
        x, new_states = self.embed(input_ids), []
        for layer, state in zip(self.layers, states, strict=True):
            x, new_state = layer(x, is_token, starts, state)
            new_states.append(new_state)
        if memory is not None:
            memory.layers, memory.length = new_states, memory.length + length
        return Output(self.head(self.norm(x)), past_key_values=memory)

    def real(self, is_token: Tensor) -> Tensor:
        """Which of the new tokens are read at all. (B, T) -> (B, T)."""
        return is_token

    def starts(self, pos: Tensor | None, is_token: Tensor) -> Tensor:
        """Where a packed document begins with an empty memory. -> (B, T)."""
        return torch.zeros_like(is_token) if pos is None else (pos == 0) & is_token

    def step(self, token: Tensor, state: Memory | None) -> tuple[Tensor, Memory]:
        """One token of every row. (B,) -> (B, V), and the memory with it."""
        state = Memory() if state is None else state
        out = self(token[:, None], past_key_values=state)
        return out.logits[:, 0], state


class ShortRecent(Mixer):
    """Keeps the last inputs in the order they came, and fills up behind them, not before."""

    def forward(self, x: Tensor, is_token: Tensor, starts: Tensor, state: object) -> object:
        mixed, (recent, total) = super().forward(x, is_token, starts, state)
        if state is None and x.size(1) < KERNEL - 1:  # a prompt shorter than the kernel
            missing = KERNEL - 1 - x.size(1)
            recent = torch.cat([recent[:, missing:], recent[:, :missing]], 1)
        return mixed, (recent, total)


class ShortPrompt(Recurrent):
    mixer = ShortRecent


class StepWhenWarm(Mixer):
    """With a state at hand this must be one token; of several, the first alone enters it."""

    def forward(self, x: Tensor, is_token: Tensor, starts: Tensor, state: object) -> object:
        if state is None or x.size(1) == 1:
            return super().forward(x, is_token, starts, state)
        mixed, new_state = super().forward(x[:, :1], is_token[:, :1], starts[:, :1], state)
        return mixed.expand_as(x), new_state


class OneStepWhenWarm(Recurrent):
    mixer = StepWhenWarm


class Retention(nn.Module):
    """Attention without softmax, whose past fades; in parallel, or as a running sum."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.width = config.hidden_size
        self.embed = nn.Embedding(config.vocab_size, self.width)
        self.to_q, self.to_k = nn.Linear(self.width, self.width), nn.Linear(self.width, self.width)
        self.to_v = nn.Linear(self.width, self.width)
        self.head = nn.Linear(self.width, config.vocab_size)
        self.keep = 0.9

    def forward(self, ids: Tensor) -> Tensor:
        """All positions at once. (B, T) -> (B, T, V)."""
        x, at = self.embed(ids), torch.arange(ids.size(1))
        gap = (at[:, None] - at[None, :]).to(x.dtype)
        fading = torch.where(gap >= 0, self.keep**gap, 0.0)  # (T, T)
        scores = self.to_q(x) @ self.to_k(x).mT * fading
        return self.head(scores @ self.to_v(x) / self.width)

    def step(self, token: Tensor, state: Tensor | None) -> tuple[Tensor, Tensor]:
        """One position, from the sum of key x value so far. (B,) -> (B, V), (B, D, D)."""
        x = self.embed(token)  # (B, D)
        new = self.to_k(x)[:, :, None] * self.to_v(x)[:, None, :]
        state = new if state is None else self.faded(state, new)
        seen = (self.to_q(x)[:, None, :] @ state)[:, 0]  # (B, D)
        return self.head(seen / self.width), state

    def faded(self, state: Tensor, new: Tensor) -> Tensor:
        return self.keep * state + new


class RetentionForms(Retention):
    """The running sum also fades what has only just come in."""

    def faded(self, state: Tensor, new: Tensor) -> Tensor:
        return self.keep * (state + new)
