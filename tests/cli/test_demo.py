"""`lookleft demo` with models too small to be good: the story is told, kept, taken up again."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

from lookleft.cli import demo as command
from lookleft.errors import FileError, InputError

TINY = {
    "train.steps": "3",
    "train.tokens": "256",
    "train.eval_every": "3",
    "train.eval_sentences": "2",
    "train.log_every": "1",
    "text.vocab_size": "700",
    "model.d_model": "32",
    "model.n_heads": "2",
    "model.d_ff": "32",
    "model.n_encoder_layers": "1",
    "model.n_layers": "1",
}
NAMES = {
    "exact_match",
    "chrf",
    "bleu",
    "honest",
    "cheat",
    "cheat_module",
    "lanes_max_difference",
    "seconds",
    "report",
}


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which the demo has run once."""
    folder = tmp_path_factory.mktemp("demo")
    with pytest.MonkeyPatch.context() as patch:
        make_tiny(patch)
        command.demo("I love tea", out=folder, fast=True)
    return folder


def make_tiny(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(command, "FAST", TINY)
    patch.setattr(command, "FAST_TEST", 4)
    patch.setattr(command, "FAST_CHEAT_STEPS", 2)
    patch.setattr(command, "FAST_LENGTHS", (8, 16))


def test_a_second_call_uses_the_models_and_prints_the_results_as_json(
    told: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    make_tiny(monkeypatch)
    before = (told / "honest" / "model" / "model.safetensors").stat().st_mtime_ns
    command.demo("I love tea", out=told, fast=True, json_=True)
    found = json.loads(capsys.readouterr().out)
    assert set(found) == NAMES
    assert found["honest"] == "VERIFIED"
    assert found["cheat"] == "DISPROVED"
    assert found["cheat_module"] == "decoder.layers.0.self_attention"
    assert found["lanes_max_difference"] < 1e-4
    assert Path(found["report"]).is_file()
    assert (told / "honest" / "model" / "model.safetensors").stat().st_mtime_ns == before


def test_models_of_other_settings_are_set_aside_not_taken_for_these(
    told: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    make_tiny(monkeypatch)
    shutil.copytree(told / "honest", tmp_path / "honest")
    teller = command.Teller(tmp_path, is_fast=True, is_again=False)
    teller.trained("honest", {"train.steps": "2"})
    assert "trained with other settings" in "".join(capsys.readouterr())
    assert "steps = 3" in (tmp_path / "honest-1" / "config.toml").read_text(encoding="utf-8")
    assert "steps = 2" in (tmp_path / "honest" / "config.toml").read_text(encoding="utf-8")


def test_the_report_is_one_file_with_every_part_filled_in(told: Path) -> None:
    page = (told / "report.html").read_text(encoding="utf-8")
    assert not re.findall(r"<!--[a-z-]+-->", page)
    assert not re.findall(r'(?:src|href|url)\s*[=(]\s*["\']?(?:https?:)?//', page)
    assert 'lang="hi">मैं' in page
    assert "I love tea" in page
    assert page.count("<svg") == 3  # losses, and two costs
    assert "✓ VERIFIED" in page
    assert "✗ DISPROVED" in page


def test_both_runs_can_be_used_afterwards(told: Path) -> None:
    for name in ("honest", "cheat"):
        assert (told / name / "model" / "config.json").is_file()
        assert (told / name / "report.html").is_file()
    assert "none" in (told / "cheat" / "config.toml").read_text()


def test_an_empty_sentence_is_refused_before_anything_is_trained(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="empty sentence"):
        command.demo("  ", out=tmp_path / "demo")
    assert not (tmp_path / "demo").exists()


def test_a_folder_that_cannot_be_made_is_named_before_anything_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(FileError, match=r"file/demo: cannot be made"):
        command.demo(out=tmp_path / "file" / "demo", fast=True)
    assert not capsys.readouterr().out
