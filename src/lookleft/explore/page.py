"""The built page: served as it is, or made into one file that needs nothing else.

The build (`make web`) leaves static/index.html with one script and one style sheet beside it.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from html import escape
from pathlib import Path
from typing import Any

from lookleft.errors import FileError
from lookleft.explore.trace import Trace
from lookleft.files import read_bytes
from lookleft.pages.fonts import data_url, devanagari_face, has_devanagari

STATIC = Path(__file__).with_name("static")
MAX_ASSET = 4 << 20
TYPES = {
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".woff2": "font/woff2",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".json": "application/json; charset=utf-8",
}
NOT_BUILT = (
    "the page is not built: run `make web` (it needs Node), or use --text, --svg or --json, which "
    "need no page"
)
NOSCRIPT, DATA = "<!--lookleft:noscript-->", "<!--lookleft:data-->"
_SCRIPT = re.compile(r'<script\b[^>]*\bsrc="\./assets/([\w.-]+\.js)"[^>]*></script>')
_STYLE = re.compile(r'<link\b[^>]*\bhref="\./assets/([\w.-]+\.css)"[^>]*>')
_FONT_FACE = re.compile(r"@font-face\s*\{[^}]*\}")
_FONT = re.compile(r"""url\(["']?(?:\./)?([\w.-]+\.woff2)["']?\)""")


class Page:
    """The files that the build wrote."""

    def __init__(self, folder: Path = STATIC) -> None:
        self.folder = folder

    @property
    def is_built(self) -> bool:
        return (self.folder / "index.html").is_file()

    def live(self, table: str) -> str:
        """The page as it is, with a table for browsers that run no scripts."""
        return self._text("index.html").replace(NOSCRIPT, table).replace(DATA, "")

    def apology(self) -> str:
        """What to show where the page should be."""
        return f"<!doctype html><title>lookleft</title><p>{escape(NOT_BUILT.capitalize())}.</p>\n"

    def asset(self, name: str) -> tuple[bytes, str] | None:
        """One file of the page and its type; None if there is no such file."""
        path = self.folder / "assets" / name
        if path.suffix not in TYPES or not path.is_file():
            return None
        return read_bytes(path, max_bytes=MAX_ASSET), TYPES[path.suffix]

    def font_style(self) -> str:
        """A style sheet that brings the Devanagari font along, for pictures that travel."""
        face = devanagari_face(self.folder)
        if face is None:
            raise FileError(NOT_BUILT)
        return face

    def one_file(self, data: dict[str, Any], table: str = "") -> str:
        """Page, style, font and data in one text that opens anywhere and asks nobody."""
        index = self._text("index.html")
        script = _inlined_script(self._text(self._named(_SCRIPT, index)))
        content = data_text(data)
        style = self._with_fonts(self._text(self._named(_STYLE, index)), content)
        policy = (
            f"default-src 'none'; script-src {_sha256(script)}; style-src {_sha256(style)}; "
            "font-src data:; img-src data: blob:; base-uri 'none'; form-action 'none'"
        )
        head = f'<meta http-equiv="Content-Security-Policy" content="{escape(policy)}">'
        index = _SCRIPT.sub(lambda _: f'<script type="module">{script}</script>', index)
        index = _STYLE.sub(lambda _: f"<style>{style}</style>", index)
        index = re.sub(r"<head\b[^>]*>", lambda found: found[0] + head, index, count=1)
        tag = f'<script type="application/json" id="lookleft-data">{content}</script>'
        return index.replace(NOSCRIPT, table).replace(DATA, tag)

    def _text(self, name: str) -> str:
        if not self.is_built:
            raise FileError(NOT_BUILT)
        return read_bytes(self.folder / name, max_bytes=MAX_ASSET).decode("utf-8")

    def _named(self, pattern: re.Pattern[str], index: str) -> str:
        found = pattern.findall(index)
        if len(found) != 1:
            raise FileError(
                f"{self.folder / 'index.html'}: names {len(found)} files where one is needed; "
                f"build the page again: make web"
            )
        return f"assets/{found[0]}"

    def _with_fonts(self, style: str, content: str) -> str:
        """The style sheet with its fonts inside; Devanagari's only if there is such text."""
        needs_devanagari = has_devanagari(content)

        def face(found: re.Match[str]) -> str:
            if (
                "devanagari" in found[0].lower()
                and not needs_devanagari
                and "latin" not in found[0]
            ):
                return ""
            return _FONT.sub(self._font_data, found[0])

        return _FONT_FACE.sub(face, style)

    def _font_data(self, found: re.Match[str]) -> str:
        font = self.asset(found[1])
        if font is None:
            raise FileError(
                f"{self.folder}: has no font {found[1]}; build the page again: make web"
            )
        return data_url(font[0])


def data_text(data: dict[str, Any]) -> str:
    """JSON that can stand inside a script element: no markup can begin in it."""
    text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c")


def weights_table(trace: Trace) -> str:
    """The first head as a table that needs no script; every label is text, never markup."""
    kind = trace.first_kind
    allowed, weights = trace.masks[kind][2].tolist(), trace.training.layers[kind, 0].weights[0]
    labels, columns = trace.labels(kind)
    heads = "".join(f"<th scope=col>{escape(token.label)}</th>" for token in columns)
    rows = "".join(
        f"<tr><th scope=row>{escape(token.label)}</th>"
        + "".join(
            f"<td>{weight:.2f}</td>" if may else "<td>hidden</td>"
            for weight, may in zip(row, allowed[t], strict=True)
        )
        + "</tr>"
        for t, (token, row) in enumerate(zip(labels, weights.tolist(), strict=True))
    )
    caption = "Weights of the first attention head: rows look, columns are looked at."
    return (
        f"<table><caption>{caption}</caption><thead><tr><td></td>{heads}</tr></thead>"
        f"<tbody>{rows}</tbody></table>"
    )


def _inlined_script(script: str) -> str:
    """A script that cannot end its own element, nor begin a comment in it."""
    return script.replace("</script", "<\\/script").replace("<!--", "<\\!--")


def _sha256(text: str) -> str:
    digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
    return f"'sha256-{digest}'"
