"""From a request line to an answer: which question each address asks. Knows no sockets."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from http import HTTPStatus
from typing import Annotated, Any, Literal, NamedTuple
from urllib.parse import parse_qsl, urlsplit

from pydantic import Field

from lookleft.config import Frozen
from lookleft.errors import ConfigError, FileError, InputError
from lookleft.explore.beam_tree import BeamRequest
from lookleft.explore.lesson import Kind, TraceRequest
from lookleft.explore.one_file import Scope
from lookleft.explore.page import Page
from lookleft.explore.service import Explorer
from lookleft.explore.states import ExploreError
from lookleft.files import parse_json

MAX_DEPTH = 4  # of the JSON in a request
JSON, HTML = "application/json; charset=utf-8", "text/html; charset=utf-8"
STATUS: dict[str, HTTPStatus] = {
    "bad_request": HTTPStatus.BAD_REQUEST,
    "unknown_model": HTTPStatus.NOT_FOUND,
    "unknown_trace": HTTPStatus.NOT_FOUND,
    "not_found": HTTPStatus.NOT_FOUND,
    "bad_host": HTTPStatus.FORBIDDEN,
    "method": HTTPStatus.METHOD_NOT_ALLOWED,
    "too_large": HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    "wrong_type": HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
    "loading": HTTPStatus.SERVICE_UNAVAILABLE,
    "internal": HTTPStatus.INTERNAL_SERVER_ERROR,
}
_OF_TRACE = re.compile(r"/api/trace/([0-9a-f]{1,32})/(head|json|html)")
_ASSET = re.compile(r"/assets/([A-Za-z0-9_.-]{1,100})")
_POSTS = {"/api/tokens", "/api/trace", "/api/prove", "/api/beam", "/api/audit", "/api/open"}
_GETS = {"/", "/index.html", "/api/model", "/api/health"}
Place = Annotated[int, Field(ge=0)]


class Reply(NamedTuple):
    """An answer before it becomes bytes on a wire."""

    body: bytes
    type: str = JSON
    status: HTTPStatus = HTTPStatus.OK
    file_name: str | None = None  # offered as a download


class TokensQuestion(Frozen):
    """Which tokens does this text become?"""

    model: str = "main"
    side: Literal["source", "target"] = "source"
    text: str


class HeadQuestion(Frozen):
    """Which head, and for exports how much around it?"""

    kind: Kind | None = None
    layer: Place = 0
    head: Place = 0
    scope: Scope | None = None


class ProveQuestion(Frozen):
    """What does this row make of a change in that column?"""

    trace: str
    kind: Kind
    layer: Place = 0
    head: Place = 0
    row: Place
    column: Place


class OpenQuestion(Frozen):
    """Which of the known models shall be read?"""

    model: str


class AuditQuestion(Frozen):
    """Does the model of this trace look at the future?"""

    trace: str


class Router:
    """Answers requests from one explorer and one built page."""

    def __init__(self, explorer: Explorer, page: Page) -> None:
        self.explorer, self.page = explorer, page

    def get(self, target: str) -> Reply:
        """The answer to GET."""
        url = urlsplit(target)
        if url.path in ("/", "/index.html"):
            return self._index()
        if found := _ASSET.fullmatch(url.path):
            return self._asset(found[1])
        if url.path == "/api/health":
            return as_json({"status": "ok"})
        if url.path == "/api/model":
            return as_json(self.explorer.describe())
        if found := _OF_TRACE.fullmatch(url.path):
            return self._guarded(lambda: self._of_trace(found[1], found[2], url.query))
        return _no_such(url.path, _POSTS, "POST")

    def post(self, target: str, body: bytes) -> Reply:
        """The answer to POST; the body is JSON."""
        path = urlsplit(target).path
        if path not in _POSTS:
            return _no_such(path, _GETS, "GET")
        return self._guarded(lambda: as_json(self._posted(path, body)))

    def _posted(self, path: str, body: bytes) -> dict[str, Any]:
        values, explorer = parse_json(body, where="the request", max_depth=MAX_DEPTH), self.explorer
        if path == "/api/tokens":
            text = TokensQuestion.parse(values, "the request")
            return explorer.tokens(text.model, text.side, text.text)
        if path == "/api/trace":
            return explorer.trace_json(TraceRequest.parse(values, "the request"))
        if path == "/api/prove":
            cell = ProveQuestion.parse(values, "the request")
            return explorer.prove(
                cell.trace, cell.kind, cell.layer, cell.head, cell.row, cell.column
            )
        if path == "/api/open":
            return explorer.open(OpenQuestion.parse(values, "the request").model)
        if path == "/api/beam":
            return explorer.beam(BeamRequest.parse(values, "the request"))
        return explorer.audit(AuditQuestion.parse(values, "the request").trace)

    def _of_trace(self, id: str, what: str, query: str) -> Reply:
        asked = HeadQuestion.parse(dict(parse_qsl(query)), "the address")
        if what == "head":
            return as_json(self.explorer.head_json(id, asked.kind, asked.layer, asked.head))
        data = self.explorer.file_data(id, asked.scope, asked.kind, asked.layer, asked.head)
        if what == "json":
            return as_json(data)
        page = self.page.one_file(data).encode()
        return Reply(page, HTML, file_name="lookleft.html")

    def _guarded(self, ask: Callable[[], Reply]) -> Reply:
        """What `ask` answers, or its error as JSON."""
        if self.explorer.state != "ready":
            waiting = self.explorer.message or f"the model is still loading: {self.explorer.phase}"
            return error("loading", waiting)
        try:
            return ask()
        except ExploreError as refused:
            return as_json(
                refused.to_json(), STATUS.get(refused.code, HTTPStatus.UNPROCESSABLE_ENTITY)
            )
        except (InputError, ConfigError, FileError) as refused:
            return error("bad_request", str(refused))

    def _index(self) -> Reply:
        if not self.page.is_built:
            return Reply(self.page.apology().encode(), HTML, HTTPStatus.SERVICE_UNAVAILABLE)
        return Reply(self.page.live(self.explorer.first_table()).encode(), HTML)

    def _asset(self, name: str) -> Reply:
        found = self.page.asset(name)
        if found is None:
            return error("not_found", f"there is no file {name}")
        return Reply(*found)


def as_json(value: dict[str, Any], status: HTTPStatus = HTTPStatus.OK) -> Reply:
    """A JSON answer; a number that JSON cannot say is a mistake of ours, and raises."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return Reply(text.encode(), JSON, status)


def error(code: str, message: str) -> Reply:
    """An error in the shape that all of them have."""
    return as_json({"error": {"code": code, "message": message}}, STATUS[code])


def _no_such(path: str, others: set[str], method: str) -> Reply:
    if path in others:
        return error("method", f"{path} answers {method} only")
    return error("not_found", f"there is nothing at {path!r:.80}")
