"""The live page on 127.0.0.1: the standard library's HTTP server around a `Router`.

Only this machine can reach it, and only pages that it served itself: the Host header must name
this address, and what is posted must be JSON, which other sites cannot send without asking.
"""

from __future__ import annotations

from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from lookleft.errors import InputError
from lookleft.explore.page import Page
from lookleft.explore.routes import Reply, Router, error
from lookleft.explore.service import Explorer

HOST = "127.0.0.1"
DEFAULT_PORT = 7070
MAX_BODY = 64 << 10
TIMEOUT = 30.0  # seconds that a silent client may hold a thread

POLICY = (
    "default-src 'self'; img-src 'self' data: blob:; object-src 'none'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'"
)


class Handler(BaseHTTPRequestHandler):
    """One connection: checks who asks, then hands over to the router."""

    protocol_version = "HTTP/1.1"
    timeout = TIMEOUT
    server: LocalServer

    def do_GET(self) -> None:
        if "Content-Length" in self.headers or "Transfer-Encoding" in self.headers:
            self.close_connection = True  # a body that nobody reads is not the next request
        refusal = self._strange_host()
        self._send(refusal or self._answered(lambda: self.server.router.get(self.path)))

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_POST(self) -> None:
        refusal = self._strange_host() or self._bad_body()
        if refusal is not None:
            self.close_connection = True  # its body is not read
            self._send(refusal)
            return
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self._send(self._answered(lambda: self.server.router.post(self.path, body)))

    def _answered(self, ask: Callable[[], Reply]) -> Reply:
        """What the router says; a mistake of ours must not leave the page waiting."""
        try:
            return ask()
        except Exception as mistake:
            said = f"{type(mistake).__name__}: {mistake}"
            return error("internal", f"this is a fault of lookleft, please report it: {said:.400}")

    def _strange_host(self) -> Reply | None:
        """Refuse names other than our own: a site that points its name at us could read along."""
        port = self.server.server_port
        own = {f"{HOST}:{port}", f"localhost:{port}"}
        origin = self.headers.get("Origin")
        is_own = origin is None or origin in {f"http://{name}" for name in own}
        if self.headers.get("Host") in own and is_own:
            return None
        return error("bad_host", f"open http://{HOST}:{port} itself: other names are refused")

    def _bad_body(self) -> Reply | None:
        kind = self.headers.get("Content-Type", "").split(";")[0].strip().lower()
        if kind != "application/json":
            return error("wrong_type", f"Content-Type {kind!r:.40}: send application/json")
        length = self.headers.get("Content-Length", "")
        if not (length.isascii() and length.isdecimal()):
            return error("bad_request", "the request has no Content-Length")
        if len(length) > 9 or int(length) > MAX_BODY:
            return error("too_large", f"{length:.20} bytes: at most {MAX_BODY:,} are read")
        return None

    def _send(self, reply: Reply) -> None:
        self.send_response(reply.status)
        headers = {
            "Content-Type": reply.type,
            "Content-Length": str(len(reply.body)),
            "Content-Security-Policy": POLICY,
            "X-Content-Type-Options": "nosniff",
            "Referrer-Policy": "no-referrer",
            "Cache-Control": "no-store",
        }
        if reply.file_name is not None:
            headers["Content-Disposition"] = f'attachment; filename="{reply.file_name}"'
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(reply.body)

    def version_string(self) -> str:
        return "lookleft"

    def log_message(self, format: str, *args: Any) -> None:
        """Sentences are nobody's business: nothing is logged."""


class LocalServer(ThreadingHTTPServer):
    """Serves one explorer on this machine; `with` closes it, `serve_forever` runs it."""

    daemon_threads = True

    def __init__(
        self, explorer: Explorer, port: int = DEFAULT_PORT, page: Page | None = None
    ) -> None:
        """Port 0 takes any that is free."""
        self.router = Router(explorer, page or Page())
        try:
            super().__init__((HOST, port), Handler)
        except (OSError, OverflowError) as problem:
            raise InputError(
                f"port {port} of {HOST} cannot be used ({problem}); try --port 0 for any free one"
            ) from problem

    @property
    def address(self) -> str:
        return f"http://{HOST}:{self.server_port}"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A browser that went away in the middle of an answer is no error."""
