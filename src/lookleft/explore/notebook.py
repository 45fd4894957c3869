"""`lookleft.explain(model, src=...)`: a trace in Python, which a notebook shows as the page."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from pathlib import Path
from typing import Any, Literal

from lookleft.bundle import Bundle, load
from lookleft.bundled import find_model
from lookleft.explore.draw_svg import draw_svg
from lookleft.explore.draw_text import draw_text
from lookleft.explore.layout import head_json, trace_json
from lookleft.explore.lesson import Kind, TraceRequest
from lookleft.explore.one_file import Scope
from lookleft.explore.page import Page, weights_table
from lookleft.explore.service import Explorer
from lookleft.explore.stages import Stage
from lookleft.explore.trace import Trace
from lookleft.files import write_atomically
from lookleft.models import AnyModel

FRAME_HEIGHT = 900


class Explanation:
    """One sentence in one model: as numbers, text, picture or page."""

    def __init__(self, explorer: Explorer, trace: Trace, page: Page | None = None) -> None:
        self.explorer, self.trace = explorer, trace
        self.page = page or Page()

    @property
    def view(self) -> tuple[Kind, int, int]:
        """The kind of attention, layer and head that are looked at."""
        request = self.trace.request
        return request.kind or self.trace.first_kind, request.layer, request.head

    def to_json(self) -> dict[str, Any]:
        """The trace in its versioned format, with the head that is looked at."""
        return trace_json(self.trace)

    def head(self, kind: Kind, layer: int, head: int) -> dict[str, Any]:
        """All matrices of another head."""
        return head_json(self.trace, kind, layer, head)

    def text(self, stage: Stage = "weights") -> str:
        """The head for a terminal."""
        return draw_text(self.trace, *self.view, stage)

    def svg(self, stage: Stage = "weights", *, has_font: bool = False) -> str:
        """The head as a picture; `has_font`: Devanagari is drawn with a font inside it."""
        style = self.page.font_style() if has_font else ""
        return draw_svg(self.trace, *self.view, stage, style)

    def data(self, scope: Scope | None = None) -> dict[str, Any]:
        """All that a one-file page holds; None takes as many heads as stay small."""
        return self.explorer.file_data(self.trace.id, scope, *self.view)

    def html(self, scope: Scope | None = None) -> str:
        """The page with everything in it."""
        return self.page.one_file(self.data(scope), weights_table(self.trace))

    def save(self, path: str | Path, scope: Scope | None = None) -> int:
        """Write the one-file page; get its size in bytes."""
        content = self.html(scope).encode()
        write_atomically(Path(path), content)
        return len(content)

    def __str__(self) -> str:
        return self.text()

    def _repr_html_(self) -> str:
        """What a notebook shows: the page in a frame that can reach nothing outside itself."""
        if not self.page.is_built:
            return f"{self.svg()}<pre>{escape(self.text())}</pre>"
        return (
            f'<iframe sandbox="allow-scripts allow-downloads" title="lookleft" '
            f'style="width:100%;height:{FRAME_HEIGHT}px;border:0" '
            f'srcdoc="{escape(self.html())}"></iframe>'
        )


def explain(
    model: Bundle | AnyModel | str | Path | None = None,
    src: str | None = None,
    tgt: str | None = None,
    *,
    kind: Kind | None = None,
    layer: int = 0,
    head: int = 0,
    inputs: Literal["same", "own"] = "same",
    forced: Iterable[int] = (),
    write: bool = False,
    max_new: int = 24,
    is_masked: bool | None = None,
    is_cached: bool = True,
    cover: Iterable[int] = (),
    pad: int = 0,
    cheater: Bundle | str | Path | None = None,
) -> Explanation:
    """One sentence through a model, training beside inference; a notebook shows it as a page.

    `model` is a bundle, a network, or the path of a run, model folder or GGUF file; None is the
    translator that comes with lookleft. Translators read `src` and, if it is given, the
    translation `tgt`; other models read one text, in either. Without any text an example is taken.
    `write` lets the model write the target, or go on from it. `inputs="own"` lets inference read
    its own words, of which the first are the ids `forced`; `is_masked` puts the mask on or off,
    None as it was trained; `cover` names tokens that an encoder shall guess; `pad` adds columns of
    padding.
    """
    explorer = Explorer()
    bundle, path = _loaded(model)
    explorer.add(bundle, "main", path)
    if isinstance(model, str | Path):
        explorer.command = f"lookleft explain {model}"
    if cheater is not None:
        bundle, path = _loaded(cheater)
        explorer.add(bundle, "cheater", path)
    return explain_with(
        explorer,
        src,
        tgt,
        kind=kind,
        layer=layer,
        head=head,
        inputs=inputs,
        forced=tuple(forced),
        target_from="model" if write else "typed",
        max_new=max_new,
        is_masked=is_masked,
        is_cached=is_cached,
        cover=tuple(cover),
        pad=pad,
    )


def explain_with(
    explorer: Explorer, src: str | None, tgt: str | None, **settings: Any
) -> Explanation:
    """The same with models that are loaded; `settings` are those of `TraceRequest`."""
    main = explorer.model("main")
    if src is None and tgt is None:
        src, tgt = main.examples[0].source, main.examples[0].target
    elif main.card.family != "encoder-decoder" and tgt is None:
        src, tgt = None, src  # one text, whatever it was called
    values = {"source": src, "target": tgt, **settings}
    request = TraceRequest.parse(values, "the request")
    return Explanation(explorer, explorer.trace(request))


def _loaded(given: Bundle | AnyModel | str | Path | None) -> tuple[Bundle, Path | None]:
    if isinstance(given, Bundle):
        return given, None
    if given is None or isinstance(given, str | Path):
        path = find_model(given)
        return load(path), path
    return Bundle(given), None
