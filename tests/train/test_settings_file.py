"""Whatever a config says, and whatever is put over it: settings, or one error in words."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from lookleft.errors import ConfigError, LookleftError
from lookleft.train.keys import all_keys
from lookleft.train.settings_file import read_settings, write_settings

HUGE = "9" * 5_000  # more digits than Python reads into a number
HUGE_HEX = "0x" + "f" * 5_000  # which it does read, but does not print
VALUES = (
    *("true", "false", "0", "-1", "1e999", "nan", "inf", "1979-05-27", "07:32:00", HUGE, HUGE_HEX),
    *('"text"', '"\\u0000"', "[]", "[1, 2]", '["a", "b"]', "{}", "{kind = 1}"),
    *('{kind = "learned"}', "[" * 300 + "]" * 300),
    *('"phrases"', '"lm"', "[" * 3_000, "''", '"""', "1\ntask = 2", "\x00", "\udcff", "x.jsonl"),
)
names = st.sampled_from([key.path for key in all_keys()]) | st.sampled_from(
    ["data", "model.positions.kind", "model.positions.max_len", "train.lr.more", "no.such", ".", ""]
)
values = st.sampled_from(VALUES) | st.text(max_size=20)
overrides = st.dictionaries(names | st.text(max_size=8), values, max_size=4)
tables = st.lists(
    st.tuples(
        st.sampled_from(["", "[data]\n", "[model.positions]\n", "[[train]]\n"]), names, values
    )
).map(lambda rows: "".join(f"{head}{key.split('.')[-1]} = {value}\n" for head, key, value in rows))
contents = st.binary(max_size=100) | tables.map(lambda text: text.encode(errors="surrogatepass"))


@settings(max_examples=400, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(content=contents, given=overrides)
@example(b"", {"train.steps": HUGE})
@example(b"", {"train.steps": HUGE_HEX})
@example(b"", {"train.lr": HUGE_HEX})
@example(b"", {"data.dir": "\x00"})
@example(b"", {"data.dir": "\udcff"})
@example(b"", {"data.train": '["a", 0x' + "f" * 5_000 + "]"})
@example(f"[train]\nsteps = {HUGE}".encode(), {})
@example(f"[train]\nsteps = {HUGE_HEX}".encode(), {})
@example(f"[model]\npositions = {HUGE_HEX}".encode(), {})
@example(b'[data]\ndir = "\\u0000"', {})
@example(b"data = 1", {"data.dir": "x"})
@example(b"data = [{}]", {"data.dir": "x"})
def test_any_bytes_and_any_words_give_settings_or_a_lookleft_error(
    tmp_path: Path, content: bytes, given: dict[str, str]
) -> None:
    (tmp_path / "x.toml").write_bytes(content)
    for path in (tmp_path / "x.toml", None):
        with contextlib.suppress(LookleftError):
            found = read_settings(path, given)
            write_settings(found, tmp_path / "again.toml")
            assert read_settings(tmp_path / "again.toml") == found


@pytest.mark.parametrize(
    ("content", "given", "reason"),
    [
        (f"[train]\nsteps = {HUGE_HEX}", {}, "no valid TOML: it has an integer of 20,000 bits"),
        (f"[train]\nsteps = {HUGE}", {}, "no valid TOML: .* 5000 digits"),
        ("", {"data.dir": "\x00"}, r"data\.dir: '\\x00' is no folder"),
        ("", {"data.train": "caf\udce9.txt"}, r"--data\.train: 'caf\\udce9\.txt' is not UTF-8"),
    ],
)
def test_what_no_settings_can_hold_is_refused_in_words(
    content: str, given: dict[str, str], reason: str, tmp_path: Path
) -> None:
    (tmp_path / "x.toml").write_text(content)
    with pytest.raises(ConfigError, match=reason):
        read_settings(tmp_path / "x.toml", given)


def test_a_data_folder_that_is_a_link_to_itself_ends_in_no_other_error(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "x.toml").write_text('[data]\ndir = "loop"')
    with contextlib.suppress(ConfigError):  # later Pythons leave it to whoever opens a file
        read_settings(tmp_path / "x.toml")
