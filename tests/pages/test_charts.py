"""Charts with powers on their axes, and charts that stand alone."""

from __future__ import annotations

import re

import pytest

from lookleft.pages.charts import Curve, draw_chart, draw_svg, powers

SQUARE = Curve("square", [(n, float(n * n)) for n in (16, 64, 256)])


def points_of(drawn: str) -> list[tuple[float, float]]:
    path = re.search(r'class="curve curve-0" d="M([^"]+)"', drawn)
    assert path is not None
    return [(float(x), float(y)) for x, y in (pair.split() for pair in path[1].split("L"))]


def test_a_power_of_the_length_is_a_straight_line_on_axes_of_powers() -> None:
    (x0, y0), (x1, y1), (x2, y2) = points_of(draw_chart("t", [SQUARE], "length", is_log=True))
    assert (y1 - y0) / (x1 - x0) == pytest.approx((y2 - y1) / (x2 - x1), rel=0.02)
    (x0, y0), (x1, y1), (x2, y2) = points_of(draw_chart("t", [SQUARE], "length"))
    assert (y1 - y0) / (x1 - x0) != pytest.approx((y2 - y1) / (x2 - x1), rel=0.5)


def test_what_is_not_above_zero_has_no_place_among_powers() -> None:
    curve = Curve("c", [(0, 1.0), (4, -1.0), (16, 2.0), (64, 3.0)])
    assert len(points_of(draw_chart("t", [curve], is_log=True))) == 2
    assert draw_chart("t", [Curve("c", [(0, 0.0)])], is_log=True) == ""


def test_powers_span_what_is_shown() -> None:
    assert powers(20, 900, 10) == [10, 100, 1000]
    assert powers(16, 16, 4) == [16, 64]


def test_a_picture_that_stands_alone_names_its_curves_and_escapes_them() -> None:
    drawn = draw_svg("time < space", [Curve("a & b", SQUARE.points)], "length", is_log=True)
    assert drawn.startswith('<svg xmlns="http://www.w3.org/2000/svg"')
    assert "a &amp; b" in drawn
    assert "time &lt; space" in drawn
    assert "<style>" in drawn
