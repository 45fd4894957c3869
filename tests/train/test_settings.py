"""Settings as people write them: lists of one, kinds alone, keys in the wrong section."""

from __future__ import annotations

from pathlib import Path

import pytest

from lookleft.config import Rotary
from lookleft.errors import ConfigError
from lookleft.train.settings_file import read_settings, write_settings

PLAIN = """
[data]
origins = "tatoeba"
[model]
positions = "rotary"
[train]
track = "tensorboard"
"""


def test_a_name_alone_is_a_list_of_one_and_a_kind_alone_its_record(tmp_path: Path) -> None:
    (tmp_path / "my.toml").write_text(PLAIN)
    given = {
        "train.track": "tensorboard",
        "data.origins": "tatoeba",
        "model.positions": "rotary",
    }
    for settings in (read_settings(tmp_path / "my.toml"), read_settings(None, given)):
        assert settings.train.track == ("tensorboard",)
        assert settings.data.origins == ("tatoeba",)
        assert settings.model.positions == Rotary()
        write_settings(settings, tmp_path / "config.toml")
        assert read_settings(tmp_path / "config.toml") == settings


def test_a_list_on_the_command_line_is_one() -> None:
    given = {"train.track": '["tensorboard"]', "data.train": '["a.en", "a.de"]'}
    settings = read_settings(None, given)
    assert settings.train.track == ("tensorboard",)
    assert settings.data.train == ("a.en", "a.de")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[tensorboard]", r'a list is written \["a", "b"\]'),  # a shell took the quotes
        ('["tensorboard", 3]', r"train\.track\.1=3: Input should be a valid string"),
    ],
)
def test_a_broken_list_is_no_name(text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        read_settings(None, {"train.track": text})


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"train.dropout": "0.1"}, r"did you mean model\.dropout \?.*config keys train$"),
        ({"train.max_tokens": "9"}, r"did you mean data\.max_tokens \?.*config keys train$"),
        ({"model.batch_size": "9"}, r"did you mean train\.tokens \?.*config keys model$"),
        ({"steps": "1"}, r"did you mean train\.steps \?.*lookleft config keys$"),
        ({"trian.lr": "1"}, r"did you mean train \?.*lookleft config keys$"),
        ({"train.stepz": "1"}, r"did you mean train\.steps \?.*config keys train$"),
    ],
)
def test_a_setting_in_the_wrong_section_is_told_its_own(
    overrides: dict[str, str], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        read_settings(None, overrides)
