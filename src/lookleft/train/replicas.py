"""The micro-batches of a step side by side, one thread each.

Small products do not keep two threads busy: they wait for each other hundreds of times per step,
and on a busy machine for ever. Two micro-batches on one thread each meet once, when their
gradients are added. Each has its own twin of the model, which shares the parameters and owns its
gradients.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import torch
from torch import nn

from lookleft.models import AnyModel
from lookleft.nn.layers import Dropout

# (model, place of the micro-batch in its step, chance) -> its summed loss; adds to the gradients
AddGradient = Callable[[AnyModel, int, torch.Generator], float]


class Replicas:
    """A model and its twins."""

    def __init__(self, model: AnyModel, n: int = 1) -> None:
        self.models = [model, *(twin(model) for _ in range(n - 1))]
        self._chances = [own_chance(each) for each in self.models]

    def run(self, add: AddGradient, n_micro: int) -> list[float]:
        """What `add` gives for each micro-batch; all their gradients are in the model then."""
        n = len(self.models)

        def work(replica: int) -> list[float]:
            model, chance = self.models[replica], self._chances[replica]
            return [add(model, place, chance) for place in range(replica, n_micro, n)]

        if n == 1:
            return work(0)
        for other in self.models[1:]:
            other.train(self.models[0].training)
        with threads_for(n), ThreadPoolExecutor(n - 1) as pool:
            others = [pool.submit(work, replica) for replica in range(1, n)]
            found = [work(0), *(other.result() for other in others)]
        for other in self.models[1:]:
            take_gradients(self.models[0], other)
        return [found[place % n][place // n] for place in range(n_micro)]


def n_replicas(accumulate: int, device: torch.device, is_compiled: bool = False) -> int:
    """How many micro-batches of a step can run at once on the threads there are."""
    if device.type != "cpu" or is_compiled:  # one batch fills it; compiled code is not copied
        return 1
    return max(1, min(accumulate, torch.get_num_threads()))


@contextmanager
def threads_for(n: int) -> Iterator[None]:
    """Inside, each of n replicas has its part of the threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(max(before // n, 1))
    try:
        yield
    finally:
        torch.set_num_threads(before)


def twin(model: AnyModel) -> AnyModel:
    """A copy that computes with the very same parameters and keeps its own gradients."""
    other = copy.deepcopy(model)
    other.zero_grad(set_to_none=True)
    for mine, its in zip(model.parameters(), other.parameters(), strict=True):
        its.data = mine.data  # the memory itself: whoever moves a weight writes into it
    return other


def own_chance(model: nn.Module) -> torch.Generator:
    """A generator for all dropout of this model: threads that share one would race for it."""
    chance = torch.Generator()
    for module in model.modules():
        if isinstance(module, Dropout):
            module.generator = chance
    return chance


def take_gradients(model: nn.Module, other: nn.Module) -> None:
    """Add the other's gradients to the model's, and leave the other without."""
    for mine, its in zip(model.parameters(), other.parameters(), strict=True):
        if its.grad is not None:
            mine.grad = its.grad if mine.grad is None else mine.grad.add_(its.grad)
            its.grad = None


def mixed(seed: int, step: int, place: int) -> int:
    """One seed out of three numbers; near ones give far ones."""
    state = seed
    for number in (step, place):
        # The constants of a 64-bit linear congruential generator (Knuth, MMIX).
        state = (state * 6364136223846793005 + 1442695040888963407 + number) % 2**63
    return state
