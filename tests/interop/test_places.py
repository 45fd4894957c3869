"""Networks are put together from files without waste, and not from files that contradict them."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from lookleft import load
from lookleft.bundle import Bundle
from lookleft.errors import FileError
from lookleft.interop.places import empty, shapes_of
from lookleft.models import AnyConfig, build, presets

CONFIGS = {
    "gpt": presets.gpt(40, 32, 3, 4, 64),
    "translator": presets.tiny(40).model_copy(update={"n_encoder_layers": 2}),
    "encoder": presets.bert(40, 32, 3, 4, 64),
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A saved GPT of three layers."""
    Bundle(build(CONFIGS["gpt"])).save(tmp_path)
    return tmp_path


def change_config(folder: Path, **values: int) -> None:
    file = folder / "config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | values))


@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)
def test_shapes_known_from_one_layer_are_those_of_the_whole_network(config: AnyConfig) -> None:
    whole = {name: tensor.shape for name, tensor in build(config).state_dict().items()}
    assert shapes_of(config) == whole


def test_an_empty_network_has_no_memory_and_moves_no_random_state() -> None:
    before = torch.get_rng_state()
    weights = empty(CONFIGS["gpt"]).state_dict().values()
    assert {weight.device.type for weight in weights} == {"meta"}
    assert torch.equal(torch.get_rng_state(), before)


def test_loading_a_model_does_not_load_the_compiler(folder: Path) -> None:
    code = (
        "import sys; from lookleft import load; load(sys.argv[1]);"
        " print('torch._dynamo' in sys.modules)"
    )
    command = [sys.executable, "-c", code, str(folder)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.stdout == "False\n", done.stderr


def test_a_config_that_asks_for_a_thousand_layers_is_refused_soon(folder: Path) -> None:
    change_config(folder, n_layer=1_024)
    start = time.process_time()
    with pytest.raises(FileError, match=r"has no tensor 'transformer\.h\.3\."):
        load(folder)
    assert time.process_time() - start < 1.0


def test_a_config_that_hides_layers_of_its_file_is_refused(folder: Path) -> None:
    change_config(folder, n_layer=2)
    with pytest.raises(
        FileError, match=r"'transformer\.h\.2\..*', of a layer that its config lacks"
    ):
        load(folder)
