"""The live server: what each address answers, and whom it refuses."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest
from explore.speakers import ENGLISH, HINDI, translator, writer

from lookleft.errors import InputError
from lookleft.explore.page import Page
from lookleft.explore.server import MAX_BODY, POLICY, LocalServer
from lookleft.explore.service import MAX_TRACES, Explorer

PAIR = {"source": ENGLISH, "target": HINDI}
INDEX = """<!doctype html><html><head><title>t</title>
<script type="module" crossorigin src="./assets/app.js"></script>
<link rel="stylesheet" crossorigin href="./assets/app.css"></head>
<body><noscript><!--lookleft:noscript--></noscript><!--lookleft:data--></body></html>"""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Page:
    folder = tmp_path_factory.mktemp("static")
    (folder / "assets").mkdir()
    (folder / "index.html").write_text(INDEX, encoding="utf-8")
    (folder / "assets" / "app.js").write_text("document.title = 'x'", encoding="utf-8")
    (folder / "assets" / "app.css").write_text("body { margin: 0 }", encoding="utf-8")
    (folder / "secret.txt").write_text("secret", encoding="utf-8")
    return Page(folder)


@pytest.fixture(scope="module")
def server(built: Page) -> Iterator[LocalServer]:
    explorer = Explorer("lookleft explain tiny")
    explorer.add(translator(), "main")
    with running(explorer, built) as made:
        yield made


class running:
    """A server in a thread of its own, stopped and closed at the end."""

    def __init__(self, explorer: Explorer, page: Page) -> None:
        self.server = LocalServer(explorer, 0, page)
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.01,))

    def __enter__(self) -> LocalServer:
        self.thread.start()
        return self.server

    def __exit__(self, *error: object) -> None:
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()


def ask(
    server: LocalServer, method: str, path: str, body: Any = None, **headers: str
) -> tuple[int, dict[str, str], bytes]:
    """Status, headers and body; a body that is not bytes is sent as JSON."""
    connection = HTTPConnection("127.0.0.1", server.server_port, timeout=30)
    data = body if isinstance(body, bytes | None) else json.dumps(body).encode()
    sent = {"Content-Type": "application/json"} if data is not None else {}
    connection.request(method, path, data, sent | headers)
    answer = connection.getresponse()
    content = answer.read()
    connection.close()
    return answer.status, dict(answer.getheaders()), content


def posted(server: LocalServer, path: str, body: Any) -> dict[str, Any]:
    status, _, content = ask(server, "POST", path, body)
    assert status == 200, content
    return json.loads(content)


def test_a_trace_and_its_heads_come_one_at_a_time(server: LocalServer) -> None:
    trace = posted(server, "/api/trace", PAIR)
    assert trace["head"]["kind"] == "decoder_self"
    address = f"/api/trace/{trace['id']}/head?kind=cross&layer=1&head=1"
    status, _, content = ask(server, "GET", address)
    head = json.loads(content)
    assert (status, head["kind"], head["layer"], head["head"]) == (200, "cross", 1, 1)
    assert len(head["training"]["weights"][0]) == trace["source"]["n"]


def test_questions_about_a_trace_are_answered(server: LocalServer) -> None:
    trace = posted(server, "/api/trace", PAIR)
    cell = {"trace": trace["id"], "kind": "decoder_self", "row": 0, "column": 2}
    assert posted(server, "/api/prove", cell)["moved"] == 0.0
    tree = posted(server, "/api/beam", {"source": ENGLISH, "size": 2, "max_new": 4})
    assert tree["hypotheses"]
    assert posted(server, "/api/audit", {"trace": trace["id"]})["verdict"] == "VERIFIED"
    status, _, content = ask(server, "GET", f"/api/trace/{trace['id']}/json?scope=head")
    data = json.loads(content)
    assert (status, data["scope"], len(data["views"][0]["heads"])) == (200, "head", 1)
    shown = [view["trace"]["settings"] for view in data["views"]]
    assert [s["inputs"] for s in shown] == ["same", "own", "same", "same"]
    assert [s["is_cached"] for s in shown] == [True, True, False, True]
    assert [s["is_masked"] for s in shown] == [True, True, True, False]
    assert data["audit"]["verdict"] == "VERIFIED"


def test_tokens_come_while_typing_whatever_the_length(server: LocalServer) -> None:
    for text, at_least in (("", 0), ("a", 1), ("the cat " * 200, 200)):
        found = posted(server, "/api/tokens", {"side": "source", "text": text})
        assert found["n"] >= at_least
        assert found["limit"] == 64


def test_the_page_says_what_it_can_show(server: LocalServer) -> None:
    described = json.loads(ask(server, "GET", "/api/model")[2])
    assert described["state"] == "ready"
    assert described["models"][0]["can"]["inference"]
    assert described["examples"][0]["source"]
    assert described["command"] == "lookleft explain tiny"
    assert described["first"]["main"] == described["examples"][0]
    assert described["known"] == []
    assert json.loads(ask(server, "GET", "/api/health")[2]) == {"status": "ok"}


def test_a_model_that_is_not_known_cannot_be_opened(server: LocalServer) -> None:
    status, _, content = ask(server, "POST", "/api/open", {"model": "../../etc"})
    assert (status, json.loads(content)["error"]["code"]) == (404, "unknown_model")
    assert posted(server, "/api/open", {"model": "main"})["models"][0]["key"] == "main"


def test_the_page_and_its_files_are_served_with_a_strict_policy(server: LocalServer) -> None:
    status, headers, content = ask(server, "GET", "/")
    assert status == 200
    assert b"<table>" in content  # for browsers without scripts
    assert headers["Content-Security-Policy"] == POLICY
    assert "unsafe" not in POLICY
    assert headers["X-Content-Type-Options"] == "nosniff"
    status, headers, _ = ask(server, "GET", "/assets/app.js")
    assert (status, headers["Content-Type"]) == (200, "text/javascript; charset=utf-8")
    status, headers, content = ask(server, "HEAD", "/assets/app.css")
    assert (status, headers["Content-Length"], content) == (200, "18", b"")


@pytest.mark.parametrize(
    "path", ["/assets/../secret.txt", "/assets/%2e%2e/secret.txt", "/secret.txt", "/assets/none.js"]
)
def test_nothing_outside_the_page_is_served(server: LocalServer, path: str) -> None:
    status, _, content = ask(server, "GET", path)
    assert status == 404
    assert b"secret\n" not in content


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "code"),
    [
        ("POST", "/api/trace", {"source": " "}, 422, "empty"),
        ("POST", "/api/trace", {"source": "the cat " * 99}, 422, "too_long"),
        ("POST", "/api/trace", {"sauce": "x"}, 400, "bad_request"),
        ("POST", "/api/trace", {**PAIR, "layer": 7}, 400, "bad_request"),
        ("POST", "/api/trace", {**PAIR, "model": "other"}, 404, "unknown_model"),
        ("POST", "/api/trace", {**PAIR, "cover": [1]}, 422, "cannot"),
        ("POST", "/api/trace", {**PAIR, "source": "\ud800"}, 400, "bad_request"),
        ("POST", "/api/trace", b"{", 400, "bad_request"),
        ("POST", "/api/trace", b"[1]", 400, "bad_request"),
        ("POST", "/api/trace", b"\xff", 400, "bad_request"),
        ("POST", "/api/prove", {"trace": "abc", "kind": "cross", "row": 0, "column": 0}, 404,
         "unknown_trace"),
        ("POST", "/api/trace", b" " * (MAX_BODY + 1), 413, "too_large"),
        ("GET", "/api/trace/0123/head", None, 404, "unknown_trace"),
        ("GET", "/api/trace", None, 405, "method"),
        ("POST", "/api/model", {}, 405, "method"),
        ("POST", "/elsewhere", {}, 404, "not_found"),
        ("GET", "/elsewhere", None, 404, "not_found"),
    ],
)  # fmt: skip
def test_each_error_has_its_status_and_code(
    server: LocalServer, method: str, path: str, body: Any, status: int, code: str
) -> None:
    got, _, content = ask(server, method, path, body)
    found = json.loads(content)["error"]
    assert (got, found["code"]) == (status, code)
    assert found["message"]


def test_other_names_and_other_sites_are_refused(server: LocalServer) -> None:
    strange = ({"Host": "evil.example"}, {"Origin": "http://evil.example"}, {"Host": "127.0.0.1"})
    for headers in strange:
        assert ask(server, "GET", "/api/model", **headers)[0] == 403
        assert ask(server, "POST", "/api/trace", PAIR, **headers)[0] == 403
    own = f"http://127.0.0.1:{server.server_port}"
    assert ask(server, "GET", "/api/model", Origin=own)[0] == 200


def test_a_form_of_another_site_cannot_post(server: LocalServer) -> None:
    for kind in ("text/plain", "application/x-www-form-urlencoded"):
        headers = {"Content-Type": kind}
        status, _, content = ask(server, "POST", "/api/trace", b'{"source":"x"}', **headers)
        assert (status, json.loads(content)["error"]["code"]) == (415, "wrong_type")


def test_only_this_machine_is_listened_to(server: LocalServer) -> None:
    assert server.server_address[0] == "127.0.0.1"
    with pytest.raises(InputError, match="--port 0"):
        LocalServer(Explorer(), server.server_port)


def test_while_the_model_loads_the_page_says_so(built: Page) -> None:
    with running(Explorer(), built) as waiting:
        described = json.loads(ask(waiting, "GET", "/api/model")[2])
        assert (described["state"], described["phase"]) == ("loading", "reading weights")
        status, _, content = ask(waiting, "POST", "/api/trace", PAIR)
        assert (status, json.loads(content)["error"]["code"]) == (503, "loading")
        assert ask(waiting, "GET", "/")[0] == 200


def test_a_page_that_was_not_built_is_apologised_for(tmp_path: Path) -> None:
    explorer = Explorer()
    explorer.add(translator(), "main")
    with running(explorer, Page(tmp_path)) as bare:
        status, _, content = ask(bare, "GET", "/")
        assert status == 503
        assert b"make web" in content
        assert ask(bare, "POST", "/api/trace", PAIR)[0] == 200


def test_many_at_once_get_their_own_answers(server: LocalServer) -> None:
    """`capture` watches whole networks: without the lock two sentences would mix."""
    texts = ["the cat", "how are you?", "I am", HINDI]
    found: dict[str, Any] = {}

    def one(text: str) -> None:
        found[text] = posted(server, "/api/trace", {"source": text, "target": text})

    threads = [threading.Thread(target=one, args=(text,)) for text in texts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for text in texts:
        assert found[text]["source"]["text"] == text
        assert found[text]["sameness"]["is_same"]


def test_a_mistake_of_ours_is_an_answer_too(built: Page, monkeypatch: pytest.MonkeyPatch) -> None:
    explorer = Explorer()
    explorer.add(writer(), "main")
    monkeypatch.setattr(explorer, "describe", lambda: 1 / 0)
    with running(explorer, built) as faulty:
        status, _, content = ask(faulty, "GET", "/api/model")
        assert (status, json.loads(content)["error"]["code"]) == (500, "internal")
        assert "ZeroDivisionError" in json.loads(content)["error"]["message"]
        assert ask(faulty, "GET", "/api/health")[0] == 200


def test_old_traces_are_forgotten(built: Page) -> None:
    explorer = Explorer()
    explorer.add(writer(), "main")
    with running(explorer, built) as small:
        ids = [
            posted(small, "/api/trace", {"target": f"the cat sat {n}"})["id"]
            for n in range(MAX_TRACES + 1)
        ]
        assert ask(small, "GET", f"/api/trace/{ids[0]}/head")[0] == 404
        assert ask(small, "GET", f"/api/trace/{ids[-1]}/head")[0] == 200
