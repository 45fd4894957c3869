"""The Devanagari font that `make web` builds for the explorer, for all pages that travel.

Not every machine has one; without it Hindi is a row of empty boxes.
"""

from __future__ import annotations

import base64
import re
from pathlib import Path

from lookleft.files import read_bytes

NAME = "Noto Sans Devanagari"
MAX_FONT = 4 << 20
BUILT = Path(__file__).parents[1] / "explore" / "static"


def has_devanagari(text: str) -> bool:
    """Whether there is a letter of Hindi in a text."""
    return re.search("[\u0900-\u097f]", text) is not None


def devanagari_face(built: Path = BUILT) -> str | None:
    """A style sheet with the font inside; None where the explorer's page was not built."""
    fonts = sorted((built / "assets").glob("*devanagari*.woff2"))
    if not fonts:
        return None
    source = data_url(read_bytes(fonts[0], max_bytes=MAX_FONT))
    return f"@font-face{{font-family:'{NAME}';font-weight:100 900;src:{source}}}"


def data_url(font: bytes) -> str:
    """A font as a style sheet names it, without a file."""
    return f"url(data:font/woff2;base64,{base64.b64encode(font).decode()})"
