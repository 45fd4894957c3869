"""`lookleft explain`: your own sentence through masked attention, training beside inference."""

from __future__ import annotations

import json
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from lookleft.errors import FileError, InputError

if TYPE_CHECKING:
    from lookleft.explore.server import LocalServer
    from lookleft.explore.service import Explorer


def explain(
    model: str | None = None,
    *,
    src: str | None = None,
    tgt: str | None = None,
    text: Annotated[bool, Parameter(negative="")] = False,
    svg: Path | None = None,
    embed_font: Annotated[bool, Parameter(negative="")] = False,
    html: Path | None = None,
    json_: Annotated[bool, Parameter(name="--json", negative="")] = False,
    stage: Literal["mask", "scores", "softmax", "weights", "output"] = "weights",
    kind: Literal["decoder_self", "cross", "encoder_self"] | None = None,
    layer: int = 0,
    head: int = 0,
    scope: Literal["head", "layer", "all"] | None = None,
    own: Annotated[bool, Parameter(negative="")] = False,
    write: Annotated[bool, Parameter(negative="")] = False,
    max_new: int = 24,
    mask: bool | None = None,
    cache: bool = True,
    cover: str | None = None,
    pad: int = 0,
    cheater: Path | None = None,
    port: int | None = None,
    open_: Annotated[bool, Parameter(name="--open")] = True,
) -> None:
    """Show a sentence in MODEL: a live page, or with --text, --svg, --html, --json one answer.

    Examples:
      lookleft explain
      lookleft explain runs/en-hi
      lookleft explain runs/en-hi --src "I am going home." --text --layer 1 --head 2
      lookleft explain runs/en-hi --src "I am going home." --html out.html
      lookleft explain model.gguf --tgt "Once upon a time" --write --svg fig.svg

    Parameters
    ----------
    model
        A run or model folder, or a .gguf file; without it the translator that comes along, en-hi.
    src
        What a translator reads; for other models their text.
    tgt
        Its translation; without it the model writes one. For other models their text.
    text
        Print one head as numbers.
    svg
        Write one head as a picture.
    embed_font
        Put the Devanagari font into the picture, for readers who may lack one.
    html
        Write the page as one file that opens anywhere, offline.
    json_
        Print all that the page would show as one JSON object.
    stage
        What --text and --svg show of the head.
    kind
        The attention to look at; without it the decoder's own, or the encoder's.
    layer
        Counted from 0.
    head
        Counted from 0.
    scope
        The heads that --html and --json hold; without it as many as stay small.
    own
        Inference reads its own words instead of the target's.
    write
        The model writes the target, or goes on from it.
    max_new
        The most tokens that it writes.
    mask
        Put the causal mask on, or with --no-mask off; without either as the model was trained.
    cache
        With --no-cache inference computes every row again at every step.
    cover
        Tokens that an encoder shall guess, as numbers from 0: 2,3
    pad
        Columns of padding, to see that nobody sees them.
    cheater
        A run trained without the mask, to compare with.
    port
        Of 127.0.0.1; 0 takes any that is free.
    open_
        Open the browser, or with --no-open not.
    """
    from lookleft.bundled import find_model
    from lookleft.explore.notebook import explain_with
    from lookleft.explore.service import Explorer
    from lookleft.files import write_atomically

    path = find_model(model)
    explorer = Explorer("lookleft explain" if model is None else f"lookleft explain {model}")
    if not (text or svg or html or json_):
        if src is not None or tgt is not None:
            raise InputError(
                "--src and --tgt need --text, --svg, --html or --json; or type them into the page"
            )
        _serve(explorer, path, cheater, port, is_opened=open_)
        return
    for file in (html, svg):
        if file is not None and not file.parent.is_dir():  # said before the work, not after
            raise FileError(f"{file}: there is no folder {file.parent}; make it first")
    explorer.load(path, cheater)
    _use_one_thread_if_small(explorer)
    shown = explain_with(
        explorer,
        src,
        tgt,
        kind=kind,
        layer=layer,
        head=head,
        inputs="own" if own else "same",
        target_from="model" if write else "typed",
        max_new=max_new,
        is_masked=mask,
        is_cached=cache,
        cover=_numbers(cover),
        pad=pad,
    )
    if html is not None:
        size = shown.save(html, scope)
        print(f"wrote {html} ({size / 1e6:.1f} MB)", file=sys.stderr)
    if svg is not None:
        write_atomically(svg, shown.svg(stage, has_font=embed_font).encode())
        print(f"wrote {svg}", file=sys.stderr)
    if text:
        print(shown.text(stage), end="")
    if json_:
        print(json.dumps(shown.data(scope), ensure_ascii=False, allow_nan=False))


def _numbers(cover: str | None) -> tuple[int, ...]:
    parts = [] if cover is None else cover.replace(",", " ").split()
    for part in parts:
        if not part.isdecimal() or len(part) > 4:
            raise InputError(f"--cover {part!r:.40}: give numbers of tokens, as in 2,3")
    return tuple(int(part) for part in parts)


def _serve(
    explorer: Explorer, path: Path, cheater: Path | None, port: int | None, *, is_opened: bool
) -> None:
    """Serve the page until Ctrl-C; the model is read meanwhile."""
    from lookleft.explore.known import known_models
    from lookleft.explore.page import NOT_BUILT, Page
    from lookleft.explore.server import DEFAULT_PORT, LocalServer
    from lookleft.files import look_at

    if not Page().is_built:
        raise FileError(NOT_BUILT)
    if look_at(path) == "nothing":
        raise FileError(f"{path}: does not exist; give a model folder or a .gguf file")
    try:
        server = LocalServer(explorer, DEFAULT_PORT if port is None else port)
    except InputError:
        if port is not None:
            raise
        server = LocalServer(explorer, 0)  # somebody else has the usual port
    explorer.known = known_models(path)
    failures: list[Exception] = []
    loader = threading.Thread(target=_load, args=(explorer, path, cheater, server, failures))
    with server:
        loader.start()
        print(f"{server.address}   (Ctrl-C stops it)", flush=True)
        if is_opened and sys.stdout.isatty():
            import webbrowser

            webbrowser.open(server.address)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            print("stopped", file=sys.stderr)
    loader.join()
    if failures:
        raise failures[0]


def _load(
    explorer: Explorer,
    path: Path,
    cheater: Path | None,
    server: LocalServer,
    failures: list[Exception],
) -> None:
    """Read the models while the page already answers; if that fails, end the server."""
    try:
        explorer.load(path, cheater)
    except Exception as error:  # raised again by the main thread
        failures.append(error)
        server.shutdown()
        return
    _use_one_thread_if_small(explorer)
    explorer.load_examples(path)


def _use_one_thread_if_small(explorer: Explorer) -> None:
    """One sentence in a small model is less work than telling other threads about it."""
    import torch

    from lookleft.explore.evidence import LARGE

    if explorer.model("main").card.n_parameters < LARGE:
        torch.set_num_threads(1)
