"""Machine code is kept on disk where it can be, and made in every process where it cannot."""

from __future__ import annotations

from pathlib import Path

import pytest

from lookleft.nn.compiling import is_compiled, kernel, kernel_folder


def double(number: int) -> int:
    return 2 * number


@pytest.mark.parametrize("is_writable", [True, False])
def test_a_kernel_is_compiled_with_and_without_a_place_to_keep_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_writable: bool
) -> None:
    place = tmp_path / "place"
    if not is_writable:
        place.touch()  # a file: no folder can be made in it
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(place))
    assert kernel("int64(int64)")(double)(21) == 42
    assert is_compiled(kernel_folder()) is is_writable
