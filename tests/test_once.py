"""What is asked for often is computed once, for each instance by itself."""

from __future__ import annotations

from dataclasses import dataclass

from lookleft.once import once


@dataclass(frozen=True)
class Square:
    side: int

    @once
    def corners(self) -> list[int]:
        """Made when asked for."""
        return [self.side] * 4


def test_a_value_is_made_when_it_is_asked_for_first_and_kept() -> None:
    small, large = Square(1), Square(2)
    assert "corners" not in vars(small)
    assert small.corners == [1] * 4
    assert small.corners is small.corners
    assert large.corners == [2] * 4
    assert Square.corners.__doc__ == "Made when asked for."
