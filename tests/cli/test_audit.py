"""`lookleft audit` as a user types it: what is printed where, what is written, how it ends."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from lookleft.cli.main import main

# main() reads sys.argv, as it does for a user; cyclopts takes that for an oversight in tests.
pytestmark = pytest.mark.filterwarnings("ignore:Cyclopts application invoked without tokens")
MODELS = """
import torch
from torch import nn

print("a stranger's module prints when imported")

class Mean(nn.Module):
    '''Averages what came before; with `leak` also the next position.'''

    def __init__(self, leak=False):
        super().__init__()
        self.embed = nn.Embedding(50, 8)
        self.head = nn.Linear(8, 50)
        self.leak = leak

    def forward(self, ids):
        x = self.embed(ids)
        count = torch.arange(1, ids.size(1) + 1, dtype=x.dtype)[:, None]
        x = x.cumsum(1) / count
        if self.leak:
            x = x + torch.roll(x, -1, dims=1)
        return self.head(x.tanh())

def honest():
    return Mean()

def leaky():
    return Mean(leak=True)

def broken():
    raise RuntimeError("out of paint")

def nothing():
    return None

def needy(width):
    return Mean()

number = 3
ready = Mean()
"""
Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Type a command in a folder with `strangers.py`: exit code, stdout, stderr."""
    (tmp_path / "strangers.py").write_text(MODELS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.delitem(sys.modules, "strangers", raising=False)
    monkeypatch.delenv("LOOKLEFT_DEBUG", raising=False)

    def typed(*words: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["lookleft", "audit", *words])
        with pytest.raises(SystemExit) as end:
            main()
        sys.modules.pop("strangers", None)
        shown = capsys.readouterr()
        return int(end.value.code or 0), shown.out, shown.err

    return typed


def test_an_honest_model_ends_with_0_and_a_verdict_on_stdout(run: Run) -> None:
    code, out, err = run("strangers:honest", "--checks", "K1", "--quick")
    assert code == 0, out + err
    assert out.startswith("VERIFIED  strangers:honest\n")
    assert "a stranger's module prints" in err


def test_a_leaky_model_ends_with_1_and_names_the_pair(run: Run) -> None:
    code, out, _ = run("strangers.py:leaky", "--checks", "K1", "--quick", "--seed", "3")
    assert code == 1
    assert "DISPROVED" in out
    assert "FAILED  K1 future-swap" in out


def test_json_on_stdout_is_one_object_and_nothing_else(run: Run) -> None:
    code, out, _ = run("strangers:leaky", "--checks", "K1", "--quick", "--json")
    found = json.loads(out)
    assert code == 1
    assert found["target"] == "strangers:leaky"
    assert found["verdict"] == "DISPROVED"
    assert {check["check"] for check in found["checks"]} == {"K1"}


def test_files_are_written_beside_the_answer(run: Run, tmp_path: Path) -> None:
    code, out, _ = run(
        "strangers:leaky",
        "--checks",
        "K1",
        "--quick",
        "--html",
        "r.html",
        "--junit",
        str(tmp_path / "r.xml"),
    )
    assert code == 1
    assert "DISPROVED" in out
    assert "strangers:leaky" in (tmp_path / "r.html").read_text()
    assert ET.parse(tmp_path / "r.xml").getroot()[0].get("failures") != "0"
    assert sorted(p.name for p in tmp_path.glob("*r.*")) == ["r.html", "r.xml"]


def test_inconclusive_ends_with_2(run: Run) -> None:
    code, out, _ = run("strangers:honest", "--checks", "K6")  # packing does not apply to it
    assert code == 2
    assert out.startswith("INCONCLUSIVE")


def test_a_rule_other_than_causal_is_held_against_the_model(run: Run) -> None:
    code, _, _ = run("strangers:honest", "--checks", "K1", "--quick", "--spec", "window:3")
    assert code == 1
    code, _, _ = run("strangers:leaky", "--checks", "K1", "--quick", "--spec", "bidirectional")
    assert code != 1


def test_a_model_instance_can_be_named_directly(run: Run) -> None:
    assert run("strangers:ready", "--checks", "K1", "--quick")[0] == 0


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ((), "name one TARGET or one --zoo"),
        (("strangers:honest", "--zoo", "transformers"), "name one TARGET or one --zoo"),
        (("gpt2",), "'gpt2' is no folder and no factory"),
        (("no.such.module:build",), "no module 'no.such.module'"),
        (("missing.py:build",), "no file missing.py"),
        (("strangers:honset",), "strangers has no 'honset'"),
        (("strangers:broken",), "RuntimeError: out of paint"),
        (("strangers:nothing",), "returned NoneType"),
        (("strangers:needy",), "it needs width"),
        (("strangers:number",), "is a int, not a factory"),
        (("strangers:honest", "--checks", "K99"), "unknown check 'K99'"),
        (("strangers:honest", "--backend", "quick"), "unknown backend 'quick'"),
        (("strangers:honest", "--backend", "sdpa"), "no choice of attention backend"),
        (("strangers:honest", "--spec", "sideways"), "unknown dependency rule 'sideways'"),
        (("strangers:honest", "--spec", "window"), "needs a number"),
        (("strangers:honest", "--html", "no/r.html"), "there is no folder no"),
        (("strangers:honest", "--junit", "."), "it is a folder"),
        ((".",), "holds no config.json"),
    ],
)
def test_wrong_usage_ends_with_3_and_one_sentence(
    run: Run, words: tuple[str, ...], sentence: str
) -> None:
    code, out, err = run(*words)
    assert code == 3
    assert out == ""
    said = [line for line in err.splitlines() if not line.startswith("a stranger's")]
    assert len(said) == 1
    assert said[0].startswith("error: ")
    assert sentence in said[0]


def test_a_factory_that_raises_is_located(run: Run, tmp_path: Path) -> None:
    line = MODELS.splitlines().index('    raise RuntimeError("out of paint")') + 1
    assert f"{tmp_path / 'strangers.py'}:{line}" in run("strangers:broken")[2]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("def build(:\n", "SyntaxError"),
        ("import nowhere_to_be_found\n", "nowhere_to_be_found"),
        ("import sys\nsys.exit(0)\n", "SystemExit"),
    ],
)
def test_a_file_that_cannot_be_imported_is_not_a_pass(
    run: Run, tmp_path: Path, text: str, sentence: str
) -> None:
    (tmp_path / "torn.py").write_text(text)
    code, _, err = run("torn.py:build")
    assert code == 3
    assert sentence in err


@pytest.mark.parametrize(
    ("files", "sentence"),
    [
        ({"config.json": "{}"}, "no .safetensors weights"),
        ({"config.json": "{", "model.safetensors": ""}, "not valid JSON"),
        ({"config.json": "{}", "model.safetensors": ""}, "names no model_type"),
        ({"config.json": '{"model_type": "gpt2"}', "model.safetensors": ""}, "cannot read"),
    ],
)
def test_a_bad_model_folder_is_explained(
    run: Run, tmp_path: Path, files: dict[str, str], sentence: str
) -> None:
    (tmp_path / "model").mkdir()
    for name, text in files.items():
        (tmp_path / "model" / name).write_text(text)
    code, _, err = run("model")
    assert code == 3
    assert sentence in err


def test_a_hugging_face_folder_and_a_class_name_are_targets(run: Run, tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers", reason="ends with pip install lookleft[hf]")
    config = transformers.GPT2Config(
        n_layer=1, n_head=2, n_embd=8, vocab_size=64, bos_token_id=1, eos_token_id=2
    )
    transformers.GPT2LMHeadModel(config).save_pretrained(tmp_path / "gpt2")
    code, out, _ = run("gpt2", "--checks", "K1", "--quick")
    assert code == 0
    assert out.startswith("VERIFIED  gpt2\n")
    words = ("transformers:GPT2LMHeadModel", "--checks", "K1", "--quick", "--backend", "eager")
    code, out, _ = run(*words)
    assert code == 0
    assert "eager, eval" in out
    code, _, err = run("transformers:NoSuchModel", "--checks", "K1", "--quick")
    assert code == 3
    assert "NoSuchModel" in err


@pytest.mark.parametrize("family", ["decoder-only", "encoder-decoder"])
def test_a_folder_written_by_lookleft_is_a_target(run: Run, tmp_path: Path, family: str) -> None:
    from lookleft.bundle import Bundle
    from lookleft.config import DecoderOnlyConfig, EncoderDecoderConfig
    from lookleft.models.decoder_only import DecoderOnly
    from lookleft.models.encoder_decoder import EncoderDecoder

    network = (
        DecoderOnly(DecoderOnlyConfig(vocab_size=61, d_model=16, n_heads=2, n_layers=1))
        if family == "decoder-only"
        else EncoderDecoder(EncoderDecoderConfig(vocab_size=61, d_model=16, n_heads=2))
    )
    Bundle(network).save(tmp_path / "ours", layout="lookleft")
    code, out, err = run("ours", "--checks", "K1", "--quick")
    assert code == 0, err
    assert out.startswith("VERIFIED  ours\n")


def test_a_zoo_gives_one_line_per_class(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("transformers", reason="ends with pip install lookleft[hf]")
    names = ("GPT2LMHeadModel", "NoSuchModel")
    # By name: the package has a function `sweep` of its own in front of the module.
    module = importlib.import_module("lookleft.audit.zoo.sweep")
    monkeypatch.setattr(module, "class_names", lambda: names)
    words = ("--zoo", "transformers", "--checks", "K1", "--quick", "--json")
    assert run(*words, "zoo.json")[0] == 2
    assert len(json.loads(Path("zoo.json").read_text())) > 0
    code, out, _ = run(*words)
    rows = {row["title"]: row for row in json.loads(out)["checks"]}
    assert code == 2
    assert rows["GPT2LMHeadModel"]["verdict"] == "VERIFIED"
    assert rows["NoSuchModel"]["verdict"] == "INCONCLUSIVE"
    assert "NoSuchModel" in rows["NoSuchModel"]["reason"]
    code, _, err = run("--zoo", "paper")
    assert code == 3
    assert "no zoo for library 'paper'" in err


def test_progress_is_silent_off_a_terminal_unless_asked_for(run: Run) -> None:
    assert "K1 future-swap" not in run("strangers:honest", "--checks", "K1", "--quick")[2]
    assert "K1 future-swap" in run("strangers:honest", "--checks", "K1", "--quick", "-v")[2]


def test_help_does_not_import_torch() -> None:
    code = (
        "import sys; sys.argv = ['lookleft', 'audit', '--help']\n"
        "from lookleft.cli.main import main\n"
        "try: main()\n"
        "except SystemExit: sys.exit('torch' in sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0
    assert "--checks" in done.stdout
