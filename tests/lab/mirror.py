"""A way from a test node to Debian's real packages: an HTTP proxy on the lab's bridge that passes on what apt asks for, and keeps the packages.

Nodes have no way out. Only hosts of the machine's own apt sources are passed on; packages never change under their name, so they are kept
beside the root file systems and a second run does not fetch them again. Indexes always come anew.
"""

from __future__ import annotations

import hashlib
import shutil
import tempfile
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

from lab.nodes import Node
from lab.rootfs import MIRRORS, cache

FETCH_S = 120
HOSTS = sorted({urlsplit(line.split()[1]).netloc for line in MIRRORS})
SOURCES = "".join(f"{line} contrib non-free non-free-firmware\n" for line in MIRRORS)


class _Proxy(BaseHTTPRequestHandler):
    """GET of a whole URL. What apt sends to make it conditional is passed on, so an index that is the same is a 304."""

    def do_GET(self) -> None:  # the base class names it
        if urlsplit(self.path).netloc not in HOSTS or not self.path.startswith("http://"):
            self.send_error(403, "not one of Debian's mirrors")
            return
        kept = cache() / "packages" / hashlib.sha256(self.path.encode()).hexdigest()
        if self.path.endswith(".deb") and kept.exists():
            self._send_file(kept)
            return
        headers = {name: value for name, value in self.headers.items() if name.lower() in ("if-modified-since", "range", "user-agent")}
        try:
            with urllib.request.urlopen(urllib.request.Request(self.path, headers=headers), timeout=FETCH_S) as answer:
                if self.path.endswith(".deb") and answer.status == 200:
                    _keep(answer, kept)
                    self._send_file(kept)
                else:
                    self._head(answer.status, answer.headers)
                    shutil.copyfileobj(answer, self.wfile)
        except urllib.error.HTTPError as failed:
            self._head(failed.code, failed.headers)
        except OSError as failed:
            self.send_error(502, str(failed)[:200])

    def _head(self, status: int, headers: object) -> None:
        self.send_response(status)
        for name in ("Content-Length", "Last-Modified", "Content-Type", "Content-Range"):
            if value := headers.get(name):  # type: ignore[attr-defined]
                self.send_header(name, value)
        self.send_header("Connection", "close")
        self.end_headers()

    def _send_file(self, path: Path) -> None:
        with path.open("rb") as file:
            self.send_response(200)
            self.send_header("Content-Length", str(path.stat().st_size))
            self.send_header("Connection", "close")
            self.end_headers()
            shutil.copyfileobj(file, self.wfile)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  (the class's own name)
        pass


def _keep(answer: object, kept: Path) -> None:
    kept.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=kept.parent, delete=False) as partial:
        shutil.copyfileobj(answer, partial)  # type: ignore[misc]
    Path(partial.name).replace(kept)


@contextmanager
def debian_for(node: Node, bridge: str) -> Iterator[None]:
    """While the block runs, the node's apt reaches Debian's main, contrib, non-free and firmware. `bridge`: our address on its network."""
    with ThreadingHTTPServer((bridge, 0), _Proxy) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            (node.root / "etc/apt/apt.conf.d/90lab-proxy").write_text(
                f'Acquire::http::Proxy "http://{bridge}:{server.server_address[1]}";\n'
            )
            (node.root / "etc/apt/sources.list").write_text(SOURCES)
            yield
        finally:
            server.shutdown()
            thread.join()
