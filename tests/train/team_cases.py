"""What one process and two must agree on: tiny runs, each described by a few words.

As a script it is one process of two, and leaves in a folder what came out.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from small_runs import STOPPABLE
from torch import Tensor

from lookleft.config import Rotary
from lookleft.data.batch import Batch, next_token_batch, translation_batch
from lookleft.errors import FileError, LookleftError
from lookleft.files import write_json
from lookleft.models import AnyModel, build, presets
from lookleft.tensors import write_tensors
from lookleft.train import checkpoint
from lookleft.train.average import MovingAverage
from lookleft.train.checkpoint import Progress, load_checkpoint, save_checkpoint
from lookleft.train.loop import train_steps
from lookleft.train.optim import make_optimizers
from lookleft.train.run import Run
from lookleft.train.schedule import make_schedule
from lookleft.train.settings_file import read_settings
from lookleft.train.team import Parallel, Team, whole
from lookleft.train.world import ALONE, World, join_world

STEPS = 3
PAIRS = [
    ([5, 6, 7], [15, 16, 2]),
    ([8], [18, 2]),
    ([9, 10, 11, 12], [19, 20, 21, 22, 23, 24, 25, 2]),
    ([5, 5], [6, 2]),
    ([7, 8], [10, 11, 2]),
    ([3, 4, 5, 6, 7], [3, 2]),
]


@dataclass(frozen=True)
class Case:
    """One run; of `micro` micro-batches a step every process takes its share."""

    parallel: Parallel
    family: str = "translate"
    micro: int = 2
    matrix_lr: float | None = None
    dtype: torch.dtype = torch.float64
    is_new: bool = False  # rotary positions and RMSNorm instead of the paper's network

    @property
    def name(self) -> str:
        optimizer = "adamw" if self.matrix_lr is None else "muon"
        kind = str(self.dtype).removeprefix("torch.") + ("-new" if self.is_new else "")
        return f"{self.parallel}-{self.family}-{self.micro}-{optimizer}-{kind}"


CASES = [
    Case("ddp"),
    Case("ddp", micro=6),
    Case("ddp", micro=6, dtype=torch.float32),
    Case("ddp", family="lm", matrix_lr=0.02),
    Case("fsdp", micro=6),
    Case("fsdp", micro=6, dtype=torch.float32),
    Case("fsdp", micro=6, dtype=torch.float32, is_new=True),
    Case("fsdp", matrix_lr=0.02),
    Case("fsdp", family="lm"),
]


# Settings of whole runs, which must not depend on how processes share the model. Own words are so
# few that of two processes often only one draws any.
WAYS = {"ema": "0.9", "average": "2", "own_words": "0.05"}


def make_model(case: Case) -> AnyModel:
    small = {"dropout": 0.1, "d_model": 16, "d_ff": 24, "n_heads": 2}
    # 31 rows cannot be shared equally by two.
    config = presets.tiny(31) if case.family == "translate" else presets.gpt(31, 16, 1, 2, 32)
    few = {"n_encoder_layers": 1, "n_decoder_layers": 1} if case.family == "translate" else {}
    new = {"norm": "rms", "qk_norm": True, "activation": "relu2", "positions": Rotary()}
    config = config.model_copy(update=small | few | (new if case.is_new else {}))
    return build(config, torch.Generator().manual_seed(0)).to(case.dtype)


def make_batch(case: Case, number: int) -> Batch:
    source, target = PAIRS[number % len(PAIRS)]
    if case.family == "lm":
        return next_token_batch([source + target])
    return translation_batch([source], [target], start_id=0)


def make_groups(case: Case, world: World, first: int = 0) -> Iterator[list[Batch]]:
    """The same micro-batches in each step for any number of processes, dealt out to them."""
    for step in range(first, STEPS):
        numbers = range(step, step + case.micro)[world.rank :: world.size]
        yield [make_batch(case, number) for number in numbers]


def make_optimizers_for(case: Case, model: AnyModel) -> list[torch.optim.Optimizer]:
    optimizers = make_optimizers(model, lr=0.01, matrix_lr=case.matrix_lr)
    return [*optimizers, MovingAverage(model.parameters(), 0.5)]


def run_case(case: Case, world: World) -> dict[str, Tensor]:
    """Weights, last gradients and losses of the run, whole."""
    model = make_model(case)
    team = Team(model, world, case.parallel)
    optimizers = make_optimizers_for(case, model)
    schedule = make_schedule("constant", warmup=0, steps=STEPS)
    groups = make_groups(case, world)
    records = list(train_steps(model, groups, optimizers, schedule, team=team))
    average = optimizers[-1]
    assert isinstance(average, MovingAverage)
    weights = team.whole_model().state_dict()
    with average.in_place():
        means = {f"mean.{name}": t.clone() for name, t in team.whole_model().state_dict().items()}
    grads = {f"grad.{name}": whole(p.grad) for name, p in model.named_parameters()}
    losses = torch.tensor([record.loss for record in records], dtype=torch.float64)
    counts = torch.tensor([record.n_targets for record in records])
    return {**weights, **means, **grads, "losses": losses, "counts": counts}


def save_there_and_back(folder: Path, world: World) -> None:
    """Checkpoints of two processes, of one that read them, and of two that read those."""
    case = Case("fsdp", matrix_lr=0.02, dtype=torch.float32)
    schedule = make_schedule("constant", warmup=0, steps=STEPS)
    model = make_model(case)
    team = Team(model, world, "fsdp")
    optimizers = make_optimizers_for(case, model)
    for record in train_steps(model, make_groups(case, world), optimizers, schedule, team=team):
        if record.step == 1:
            two = save_checkpoint(
                folder / "two", model, optimizers, Progress(2, {"line": 3}), world=world
            )
    if world.is_main:
        alone = make_model(case)
        others = make_optimizers_for(case, alone)
        progress = load_checkpoint(two, alone, others)
        save_checkpoint(folder / "one", alone, others, progress)
    world.is_any(False)  # wait for it
    again = make_model(case)
    team = Team(again, world, "fsdp")
    optimizers = make_optimizers_for(case, again)
    progress = load_checkpoint(folder / "one" / two.name, again, optimizers, world)
    save_checkpoint(folder / "two again", again, optimizers, progress, world=world)
    groups = make_groups(case, world, first=progress.step)
    list(train_steps(again, groups, optimizers, schedule, first_step=progress.step, team=team))
    finals = {"straight": model, "taken-up": again}
    for name, final in finals.items():
        tensors = {key: whole(tensor) for key, tensor in final.state_dict().items()}
        if world.is_main:
            write_tensors(folder / f"{name}.safetensors", tensors)


def fail_in_one(folder: Path, world: World) -> dict[str, str]:
    """What each process is told when only process 1 meets a bad number or a bad disk."""
    case = Case("ddp")
    model = make_model(case)
    team = Team(model, world)
    optimizers = make_optimizers_for(case, model)
    schedule = make_schedule("constant", warmup=0, steps=1)
    if world.rank == 1:
        with torch.no_grad():
            model.embedding.tokens.weight[18] = math.nan
    numbers = [1 if world.rank == 1 else 0]  # only the pair of process 1 has an 18
    lines = tuple(range(10 * world.rank, 10 * world.rank + 6))
    groups = [[replace(make_batch(case, number), lines=lines) for number in numbers]]
    told = {}
    try:
        list(train_steps(model, groups, optimizers, schedule, team=team))
    except LookleftError as error:
        told |= {"number": type(error).__name__, "words": str(error)}
    sharded = make_model(case)
    Team(sharded, world, "fsdp")
    if world.rank == 1:
        checkpoint._write_part = refuse  # type: ignore[assignment]
    try:
        save_checkpoint(folder / "refused", sharded, [], Progress(1, {}), world=world)
    except LookleftError as error:
        told["disk"] = type(error).__name__
    return told


def fit_by_two_clocks(folder: Path, world: World) -> dict[str, int]:
    """How many steps a run has for each process, of which process 1 finds them much slower."""
    given = STOPPABLE | {"data.train": str(folder / "pairs.tsv"), "train.steps": "40"}
    given |= {"train.minutes": "0.5", "train.save_every": "100"}
    run = Run.start(folder / "fitted", read_settings(None, given), world)
    run.clock = lambda: run.progress.step * (1.0 + 9.0 * world.rank)
    *_, last = run.train()
    return {"n_steps": run.n_steps, "last": last.step}


def whole_run(folder: Path, world: World, parallel: str, way: str, value: str) -> None:
    """A run with all that surrounds its steps: evaluations, the best model, a result."""
    data = {name: str(folder / "pairs.tsv") for name in ("data.train", "data.dev")}
    given = STOPPABLE | data | {"train.parallel": parallel, f"train.{way}": value}
    given["train.save_every"] = "4"
    run = Run.start(folder / f"{parallel}-{way}", read_settings(None, given), world)
    list(run.train())
    assert run.is_finished


def refuse(*details: object) -> None:
    raise FileError("no room")


def main(folder: Path) -> None:
    torch.set_num_threads(1)
    with join_world() as world:
        assert world != ALONE
        for case in CASES:
            tensors = run_case(case, world)
            write_tensors(folder / f"{case.name}.{world.rank}.safetensors", tensors)
        save_there_and_back(folder, world)
        for way, value in WAYS.items():
            for parallel in ("ddp", "fsdp"):
                whole_run(folder, world, parallel, way, value)
        write_json(folder / f"told.{world.rank}.json", fail_in_one(folder, world))
        write_json(folder / f"fitted.{world.rank}.json", fit_by_two_clocks(folder, world))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
