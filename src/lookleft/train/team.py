"""One model trained by many processes, each on its own share of the data.

Gradients are *summed* over processes, and divided once by the targets of all of them: a mean of
means would weigh a process with few targets as much as one with many.

ddp     every process holds the whole model; gradients travel while the backward pass still runs
fsdp    weights, gradients and optimiser state are cut along their first dimension, a part for
        each process; a layer is whole only while it computes
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Literal

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.nn.utils import clip_grad_norm_

from lookleft.data.batch import Batch
from lookleft.errors import ConfigError
from lookleft.models import AnyModel, build
from lookleft.nn.block import Block
from lookleft.train.replicas import Replicas, mixed
from lookleft.train.world import ALONE, World

Parallel = Literal["ddp", "fsdp"]
Loss = Callable[[AnyModel, Batch, int, torch.Generator], Tensor]


def check_place(device: torch.device, n_processes: int) -> None:
    """Raise if so many processes cannot train together on this kind of device."""
    if n_processes > 1 and device.type != "cpu":
        raise ConfigError(
            f"{n_processes} processes on {device.type}: several processes train on the CPU only. "
            f'Take train.device = "cpu", or one process'
        )


class Learner(nn.Module):
    """The loss of a micro-batch as a module: what follows gradients around hooks its forward."""

    def __init__(self, model: AnyModel) -> None:
        super().__init__()
        self.model = model

    def forward(self, loss: Loss, batch: Batch, step: int, chance: torch.Generator) -> Tensor:
        return loss(self.model, batch, step, chance)


class Team:
    """A model and the processes that train it together; alone it is just the model.

    Made before the optimisers: under fsdp the parameters of the model change their kind here.
    """

    def __init__(
        self,
        model: AnyModel,
        world: World = ALONE,
        parallel: Parallel = "ddp",
        *,
        n_replicas: int = 1,  # micro-batches side by side; in a world of many always 1
        seed: int = 0,
    ) -> None:
        check_place(model.device, world.size)
        self.model, self.world, self.seed = model, world, seed
        self._replicas = Replicas(model, n_replicas if world.size == 1 else 1)
        self._learner: nn.Module = Learner(model)
        self._n_averaged = 1  # processes over which a mean of the gradients is taken
        self._is_sharded = world.size > 1 and parallel == "fsdp"
        if self._is_sharded:
            shard(self._learner)
        elif world.size > 1:
            self._learner = DistributedDataParallel(self._learner, forward_sync_buffers=False)
            self._n_averaged = world.size

    def gradient(
        self, loss: Loss, group: Sequence[Batch], step: int, n_targets: int
    ) -> list[float]:
        """The gradient of a step's micro-batches in the model, and the summed loss of each.

        `n_targets` are those of all processes. Chance depends on the seed, the step and the
        micro-batch, not on who computes it: a restart drops what would have been dropped.
        """

        def add(model: AnyModel, place: int, chance: torch.Generator) -> float:
            seed = mixed(self.seed, step, place * self.world.size + self.world.rank)
            chance.manual_seed(seed)
            if model.device.type != "cpu":
                torch.manual_seed(seed)  # there dropout draws from the device's own chance
            batch = group[place].to(model.device)
            with self._exchange(is_last=place + 1 == len(group)):
                if model is self.model:  # the one whose gradients travel
                    value: Tensor = self._learner(loss, batch, step, chance)
                else:
                    value = loss(model, batch, step, chance)
                (value * self._n_averaged / max(n_targets, 1)).backward()  # type: ignore[no-untyped-call]
            return value.item()

        return self._replicas.run(add, len(group))

    def clip(self, max_norm: float) -> float:
        """Shorten the gradient to `max_norm`; get how long it was."""
        return float(whole(clip_grad_norm_(self.model.parameters(), max_norm, foreach=True)))

    def whole_model(self) -> AnyModel:
        """The model as one process can use it alone; under fsdp a copy, and all must ask for it."""
        if not self._is_sharded:
            return self.model
        weights = {name: whole(tensor) for name, tensor in self.model.state_dict().items()}
        made = build(self.model.config)
        made.load_state_dict(weights, assign=True)  # in their own precision
        return made

    def _exchange(self, is_last: bool) -> AbstractContextManager[None]:
        if isinstance(self._learner, DistributedDataParallel):
            return nullcontext() if is_last else self._learner.no_sync()
        if self._is_sharded:
            self._learner.set_requires_gradient_sync(is_last)  # type: ignore[operator]
            return _without_remarks()
        return nullcontext()


@contextmanager
def _without_remarks() -> Iterator[None]:
    """FSDP warns that a linear layer returns a view, which nobody here writes into."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="FSDP2-wrapped module", category=UserWarning)
        yield


def is_cut(tensor: Tensor) -> bool:
    """True if each process holds some rows of this tensor, and none all of them."""
    return hasattr(tensor, "full_tensor")  # without importing DTensor, which few runs need


def whole(tensor: Tensor) -> Tensor:
    """A cut tensor put together, in each process; any other as it is."""
    return tensor.full_tensor() if is_cut(tensor) else tensor  # type: ignore[attr-defined]


def part(tensor: Tensor) -> Tensor:
    """The rows of a cut tensor that this process holds, in the memory they lie in."""
    return tensor.to_local() if is_cut(tensor) else tensor  # type: ignore[attr-defined]


def share_of(tensor: Tensor, pattern: Tensor) -> Tensor:
    """A whole tensor cut as `pattern` is, if it is cut; each process has the same whole."""
    if not is_cut(pattern):
        return tensor
    from torch.distributed.tensor import DTensor, distribute_tensor

    assert isinstance(pattern, DTensor)
    return distribute_tensor(tensor, pattern.device_mesh, pattern.placements, src_data_rank=None)


def cut_like(rows: Tensor, pattern: Tensor) -> Tensor:
    """Rows of this process as a part of a tensor that is cut as `pattern` is, if it is cut."""
    if not is_cut(pattern) or not rows.ndim:
        return rows
    from torch.distributed.tensor import DTensor

    assert isinstance(pattern, DTensor)
    return DTensor.from_local(
        rows,
        pattern.device_mesh,
        pattern.placements,
        shape=pattern.shape,
        stride=pattern.stride(),
    )


def shard(learner: nn.Module) -> None:
    """Cut the parameters over all processes: block by block, what is outside blocks together."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import FSDPModule, fully_shard

    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    blocks = [module for module in learner.modules() if isinstance(module, Block)]
    for block in blocks:
        if hasattr(block, "cross_attention"):
            # Keys and values of the source are made before the blocks run: units of their own.
            fully_shard(block.cross_attention.to_k, mesh=mesh)
            fully_shard(block.cross_attention.to_v, mesh=mesh)
    for module in [*blocks, learner]:
        fully_shard(module, mesh=mesh)
    for module in learner.modules():
        if isinstance(module, FSDPModule):
            module.set_gradient_divide_factor(1.0)  # the sum, not the mean
            module.set_force_sum_reduction_for_comms(True)  # gloo knows no other
