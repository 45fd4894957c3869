"""Special tokens are found in whichever of the usual files names them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from lookleft.errors import FileError, InputError
from lookleft.text.vocab import Specials, read_specials

IDS = {"<pad>": 0, "<s>": 1, "</s>": 2, "<end>": 3, "<mask>": 4, "<unk>": 5}


def read(folder: Path, **files: dict[str, Any]) -> Specials:
    for name, content in files.items():
        (folder / f"{name}.json").write_text(json.dumps(content), "utf-8")
    return read_specials(folder, IDS.get)


def test_names_in_the_tokenizer_config_come_first(tmp_path: Path) -> None:
    found = read(
        tmp_path,
        tokenizer_config={"eos_token": {"content": "<end>", "lstrip": False}, "pad_token": None},
        special_tokens_map={"eos_token": "</s>", "pad_token": "<end>"},
        generation_config={"eos_token_id": 9, "bos_token_id": 8},
        config={"bos_token_id": 7, "mask_token_id": 6},
    )
    assert found == Specials(eos=3, pad=3, bos=8, mask=6, unk=5)


def test_of_several_end_tokens_the_first_counts(tmp_path: Path) -> None:
    assert read(tmp_path, generation_config={"eos_token_id": [3, 2]}).eos == 3


def test_usual_names_help_where_no_file_says(tmp_path: Path) -> None:
    assert read(tmp_path) == Specials(pad=0, bos=1, eos=2, mask=4, unk=5)
    assert read_specials(tmp_path, {"a": 0}.get) == Specials()


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ({"tokenizer_config": {"eos_token": "<gone>"}}, "eos_token is '<gone>', not in"),
        ({"tokenizer_config": {"eos_token": 3}}, "eos_token is 3, not a string"),
        ({"generation_config": {"eos_token_id": -1}}, "eos_token_id is -1, not an id"),
        ({"config": {"pad_token_id": True}}, "pad_token_id is True, not an id"),
    ],
)
def test_a_file_that_names_no_token_is_refused(
    content: dict[str, Any], reason: str, tmp_path: Path
) -> None:
    with pytest.raises(FileError, match=reason):
        read(tmp_path, **content)


def test_a_role_that_is_missing_is_named_when_needed() -> None:
    assert Specials(eos=2).require("eos") == 2
    with pytest.raises(InputError, match="no mask token"):
        Specials(eos=2).require("mask")
