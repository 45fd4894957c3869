"""Two processes learn what one would, whichever way the model is spread over them."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
import torch
from processes import run_world
from small_runs import small_settings, write_pairs
from torch import Tensor

from lookleft.errors import ConfigError
from lookleft.tensors import read_tensors
from lookleft.train.checkpoint import is_sound, load_checkpoint
from lookleft.train.loss import batch_loss
from lookleft.train.prepare import prepare
from lookleft.train.shards import own_rows
from lookleft.train.world import ALONE

sys.path.insert(0, str(Path(__file__).parent))

from team_cases import (
    CASES,
    STEPS,
    WAYS,
    Case,
    make_batch,
    make_model,
    make_optimizers_for,
    run_case,
)

SCRIPT = Path(__file__).parent / "team_cases.py"
LIMITS = {torch.float64: 1e-10, torch.float32: 1e-6}  # relative


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What two processes left behind."""
    folder = tmp_path_factory.mktemp("two")
    write_pairs(folder / "pairs.tsv")
    run_world(SCRIPT, 2, str(folder))
    return folder


def distance(one: dict[str, Tensor], other: dict[str, Tensor], kind: str) -> float:
    """How far apart all tensors of a kind are together, as a share of their length."""
    names = [name for name in one if name.startswith(kind)]
    assert names
    gap = torch.stack([(one[n] - other[n]).double().norm() for n in names]).norm()
    return float(gap / torch.stack([one[n].double().norm() for n in names]).norm())


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_two_processes_equal_one(case: Case, two: Path) -> None:
    alone = run_case(case, ALONE)
    limit = LIMITS[case.dtype] * (10 if case.parallel == "fsdp" else 1)
    for rank in range(2):
        together = read_tensors(two / f"{case.name}.{rank}.safetensors")
        assert together.keys() == alone.keys()
        assert torch.equal(together["counts"], alone["counts"])
        if case.dtype == torch.float64:  # in float32 Adam makes much of a gradient that is noise
            assert distance(alone, together, "") < limit
        first = alone["losses"][0]
        assert abs(together["losses"][0] - first) / first < limit


def test_the_gradient_of_two_processes_is_that_of_one_in_single_precision(two: Path) -> None:
    for case in [case for case in CASES if case.dtype == torch.float32]:
        alone = run_case(case, ALONE)
        together = read_tensors(two / f"{case.name}.0.safetensors")
        assert distance(alone, together, "losses") < 1e-5
        assert distance(alone, together, "grad.") < (1e-6 if case.parallel == "ddp" else 1e-5)


def test_a_mean_of_means_would_be_noticed() -> None:
    """The alarm can ring: the micro-batches of a step have very different numbers of targets."""
    case, model = Case("ddp"), make_model(Case("ddp")).eval()
    batches = [make_batch(case, number) for number in (1, 2)]
    n_all = sum(batch.n_targets for batch in batches)

    def gradient(divisors: list[int]) -> dict[str, Tensor]:
        model.zero_grad()
        for batch, divisor in zip(batches, divisors, strict=True):
            (batch_loss(model, batch) / divisor).backward()
        return {f"grad.{name}": p.grad.clone() for name, p in model.named_parameters()}

    divided_once = gradient([n_all, n_all])
    mean_of_means = gradient([2 * batch.n_targets for batch in batches])
    assert distance(divided_once, mean_of_means, "grad.") > 0.1


def test_a_checkpoint_goes_from_two_processes_to_one_and_back(two: Path) -> None:
    name = "step-00000002"
    folders = [two / kind / name for kind in ("two", "one", "two again")]
    assert all(is_sound(folder) for folder in folders)
    assert len(list(folders[0].glob("model-*-of-00002.safetensors"))) == 2
    assert len(list(folders[1].glob("model*"))) == 1
    case = Case("fsdp", matrix_lr=0.02, dtype=torch.float32)
    states = []
    for folder in folders:
        model = make_model(case)
        optimizers = make_optimizers_for(case, model)
        assert load_checkpoint(folder, model, optimizers).position == {"line": 3}
        moments = [
            value for o in optimizers for state in o.state.values() for value in state.values()
        ]
        states.append([*model.state_dict().values(), *moments])
        assert len(moments) > 20
    for other in states[1:]:
        assert all(torch.equal(a, b) for a, b in zip(states[0], other, strict=True))
    # A part alone is not the whole: the test above compares more than the first rows.
    rows = read_tensors(folders[0] / "model-00001-of-00002.safetensors")["embedding.tokens.weight"]
    assert rows.shape[0] == 16


def test_a_run_taken_up_by_other_processes_goes_on_bit_for_bit(two: Path) -> None:
    straight = read_tensors(two / "straight.safetensors")
    taken_up = read_tensors(two / "taken-up.safetensors")
    assert STEPS > 2
    assert straight.keys() == taken_up.keys()
    assert all(torch.equal(straight[name], taken_up[name]) for name in straight)


def test_what_fails_in_one_process_stops_all(two: Path) -> None:
    told = [json.loads((two / f"told.{rank}.json").read_text()) for rank in range(2)]
    assert [one["number"] for one in told] == ["DivergedError", "DivergedError"]
    where = "the loss is nan and the norm of its gradient nan on lines 10, 11, 12, 13, 14, 15 of"
    assert all(where in one["words"] for one in told)  # not those of the innocent
    assert [one["disk"] for one in told] == ["PeerError", "FileError"]
    assert not list((two / "refused").iterdir())


@pytest.mark.parametrize("way", WAYS)
def test_a_whole_run_ends_alike_however_processes_share_the_model(way: str, two: Path) -> None:
    ours, theirs = (two / f"{parallel}-{way}" for parallel in ("fsdp", "ddp"))
    scores = [json.loads((folder / "scores.json").read_text()) for folder in (ours, theirs)]
    assert scores[0]["step"] == scores[1]["step"]
    assert scores[0]["dev_loss"] == pytest.approx(scores[1]["dev_loss"], rel=1e-5)
    models = [read_tensors(folder / "model" / "model.safetensors") for folder in (ours, theirs)]
    assert models[0].keys() == models[1].keys()
    # Not one by one: a key's bias has no gradient but roundings, which Adam takes for steps.
    assert distance(*models, kind="") < 1e-4


def test_two_processes_whose_clocks_differ_fit_the_same_steps(two: Path) -> None:
    fitted = [json.loads((two / f"fitted.{rank}.json").read_text()) for rank in range(2)]
    assert fitted == [{"n_steps": 29, "last": 29}] * 2  # of 40; by the other clock not even 3


@pytest.mark.parametrize("n_rows", [0, 1, 2, 5, 7, 31, 32])
@pytest.mark.parametrize("size", [1, 2, 3, 8])
def test_rows_are_shared_out_as_torch_chunks_them(n_rows: int, size: int) -> None:
    pieces = list(torch.arange(n_rows).chunk(size)) if n_rows else []
    pieces += [torch.arange(0)] * (size - len(pieces))
    for rank, piece in enumerate(pieces):
        start, stop = own_rows(n_rows, rank, size)
        assert torch.equal(torch.arange(n_rows)[start:stop], piece)


def test_several_processes_on_a_gpu_are_refused_before_anything_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = small_settings(write_pairs(tmp_path / "pairs.tsv"))
    monkeypatch.setattr(
        "lookleft.train.prepare.find_device", lambda name: torch.device("cuda", index=0)
    )
    with pytest.raises(
        ConfigError, match="2 processes on cuda: several processes train on the CPU"
    ):
        prepare(tmp_path / "run", settings, n_processes=2)
    assert [path.name for path in tmp_path.iterdir()] == ["pairs.tsv"]
