"""Weights averaged over time: steps pull them to and fro around a point that is better than all.

Two ways: a moving average that follows training, or the mean of the last checkpoints at its end.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.optim.swa_utils import get_ema_multi_avg_fn

from lookleft.errors import FileError, InputError
from lookleft.models import AnyModel, build
from lookleft.tensors import read_tensors
from lookleft.train.checkpoint import find_checkpoints, is_sound, read_weights, step_of
from lookleft.train.team import part


class MovingAverage(torch.optim.Optimizer):
    """Follows the weights: mean <- decay * mean + (1 - decay) * weight, after every step.

    It has the shape of an optimiser, the last of a run, so that what it remembers is saved, loaded
    and shared among processes as momentum is. It changes no weight and needs no gradient.
    """

    def __init__(self, parameters: Iterable[nn.Parameter], decay: float) -> None:
        if not 0 < decay < 1:
            raise InputError(f"decay={decay} must lie between 0 and 1")
        super().__init__(parameters, {"decay": decay, "peak_lr": 0.0})

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        assert closure is None, "an average looks at the weights it is given"
        for group in self.param_groups:
            parameters = group["params"]
            for parameter in parameters:
                if not self.state[parameter]:
                    self.state[parameter] = {
                        "mean": torch.zeros_like(parameter),
                        "step": torch.zeros(()),
                    }
            n_before = float(self.state[parameters[0]]["step"])
            # A short memory at first, since the first weights of all are worth nothing.
            decay = min(group["decay"], n_before / (10 + n_before))
            follow = get_ema_multi_avg_fn(decay)  # type: ignore[no-untyped-call]
            follow([self.state[p]["mean"] for p in parameters], parameters, n_before)
            for parameter in parameters:
                self.state[parameter]["step"] += 1

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """Inside, the model computes with the averaged weights; afterwards with its own again."""
        self._swap()
        try:
            yield
        finally:
            self._swap()

    def _swap(self) -> None:
        """Weights and means change places; numbers are copied, so nothing is rounded."""
        for group in self.param_groups:
            for parameter in group["params"]:
                state = self.state[parameter]
                if state:  # no step was taken yet: the weights are their own average
                    weight, mean = part(parameter.detach()), part(state["mean"])
                    kept = weight.clone()
                    weight.copy_(mean)
                    mean.copy_(kept)


def mean_of(
    paths: Sequence[Path], read: Callable[[Path], dict[str, Tensor]] = read_tensors
) -> dict[str, Tensor]:
    """The mean of the weights in several safetensors files, summed in float64, by name."""
    if not paths:
        raise InputError("a mean needs at least one file of weights")
    kinds = {name: tensor.dtype for name, tensor in read(paths[0]).items()}
    sums: dict[str, Tensor] = {}
    for path in paths:
        tensors = read(path)
        if tensors.keys() != kinds.keys():
            strange = sorted(tensors.keys() ^ kinds.keys())[0]
            raise FileError(f"{path}: differs from {paths[0]} in {strange!r}: not the same model")
        for name, tensor in tensors.items():
            if name in sums and sums[name].shape != tensor.shape:
                raise FileError(
                    f"{path}: {name!r} is {tuple(tensor.shape)}, in {paths[0]} it is "
                    f"{tuple(sums[name].shape)}: not the same model"
                )
            sums[name] = tensor.double() + sums.get(name, 0.0)
    return {name: (total / len(paths)).to(kinds[name]) for name, total in sums.items()}


def mean_model(folder: Path, model: AnyModel, n_kept: int) -> tuple[AnyModel, int]:
    """A network like `model` with the mean weights of a folder's last checkpoints; of how many."""
    sound = [found for found in find_checkpoints(folder) if is_sound(found)][:n_kept]
    if not sound:
        raise FileError(f"{folder}: has no sound checkpoint to average; leave train.average out")
    made = build(model.config).to(model.device)
    made.load_state_dict(mean_of(sound, read=read_weights))
    return made.eval(), len(sound)


def forget_checkpoints_after(folder: Path, step: int) -> None:
    """Remove the checkpoints of a folder that were made after a step: another future wrote them."""
    for checkpoint in find_checkpoints(folder):
        if step_of(checkpoint) > step:
            try:
                shutil.rmtree(checkpoint)
            except OSError as error:
                raise FileError(f"{checkpoint}: cannot be removed: {error.strerror}") from error
