"""Reaching mirrors: each answer in its own words, one that hangs costs its own patience only."""

from __future__ import annotations

import base64
import io
import json
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from burnin.node.__main__ import main
from burnin.node.host.reaching import proxies, reach
from burnin.node.host.reading import Reader


class Mirror(BaseHTTPRequestHandler):
    """Has one file, refuses HEAD, and one path breaks off."""

    def do_GET(self) -> None:
        told = self.headers.get("Authorization") == "Basic " + base64.b64encode(b"kim:p@ss").decode()
        self.send_response({"/there/InRelease": 200, "/broken/InRelease": 503, "/ours/InRelease": 200 if told else 401}.get(self.path, 404))
        self.end_headers()
        self.wfile.write(b"x" * 5000)

    def log_message(self, *_args: object) -> None:
        """Quiet."""


@pytest.fixture
def mirror(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("no_proxy", "*")
    server = ThreadingHTTPServer(("127.0.0.1", 0), Mirror)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def test_each_url_is_told_apart(mirror: str) -> None:
    told = reach([f"{mirror}/there/InRelease", f"{mirror}/other/InRelease", f"{mirror}/broken/InRelease", "nonsense"], 5)

    assert [(answer["ok"], answer["status"]) for answer in told.values()] == [(True, 200), (False, 404), (False, 503), (False, None)]
    assert told[f"{mirror}/other/InRelease"]["why"] == "answered 404 Not Found"
    assert "nonsense" in told["nonsense"]["why"]


def test_a_mirror_that_is_down_or_silent_is_not_waited_for(mirror: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        quiet = f"http://127.0.0.1:{silent.getsockname()[1]}/InRelease"
        told = reach([quiet, f"{mirror}/there/InRelease", "http://127.0.0.1:1/InRelease"], 0.5)

    assert [answer["ok"] for answer in told.values()] == [False, True, False]
    assert "timed out" in told[quiet]["why"]
    assert told[quiet]["seconds"] < 3
    assert "refused" in told["http://127.0.0.1:1/InRelease"]["why"]


def test_a_mirror_that_asks_who_we_are_is_told(mirror: str) -> None:
    ours = mirror.replace("http://", "http://kim:p%40ss@") + "/ours/InRelease"

    told = reach([ours, f"{mirror}/ours/InRelease"], 5)

    assert [answer["status"] for answer in told.values()] == [200, 401]


def test_without_urls_they_come_on_stdin(mirror: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(f"{mirror}/there/InRelease\n{mirror}/other\n"))

    assert main(["reach", "--seconds", "5"]) == 0
    assert [answer["ok"] for answer in json.loads(capsys.readouterr().out).values()] == [False, True]


def test_a_mirror_on_the_disk_counts(tmp_path: Path) -> None:
    (tmp_path / "InRelease").write_text("x")

    told = reach([(tmp_path / "InRelease").as_uri(), (tmp_path / "other").as_uri()], 1)

    assert [answer["ok"] for answer in told.values()] == [True, False]


def test_dnf_says_its_proxy_in_its_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("urllib.request.getproxies", dict)
    (tmp_path / "etc/dnf").mkdir(parents=True)
    (tmp_path / "etc/dnf/dnf.conf").write_text("[main]\nproxy=http://proxy.example:3128\n")

    assert proxies(Reader(str(tmp_path))) == {"http": "http://proxy.example:3128", "https": "http://proxy.example:3128"}
