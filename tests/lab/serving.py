"""A site of repositories over HTTP, for as long as it is needed: in a thread of a test, or as a process of its own that ends by itself."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

READY_S = 10.0


class _Quiet(SimpleHTTPRequestHandler):
    """Serves what a repository has; names that begin with a dot (secret keys, half-written files) are not there."""

    def send_head(self):  # type: ignore[no-untyped-def]  # the class's own type is not public
        if any(part.startswith(".") and part != "." for part in self.path.split("/")):
            self.send_error(404)
            return None
        return super().send_head()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  (the class's own name)
        pass


def _server(site: Path, address: str, port: int) -> ThreadingHTTPServer:
    return ThreadingHTTPServer((address, port), partial(_Quiet, directory=str(site)))


@contextmanager
def served(site: Path, address: str = "127.0.0.1", port: int = 0) -> Iterator[str]:
    """The site's URL, while the block runs. `address`: the bridge's (198.18.N.1) where nodes are to reach it."""
    with _server(site, address, port) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"http://{address}:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()


def serve(site: Path, address: str, port: int, seconds: float) -> None:
    """In the foreground; prints its URL, ends after `seconds`."""
    with _server(site, address, port) as server:
        threading.Timer(seconds, server.shutdown).start()
        print(f"http://{address}:{server.server_address[1]}", flush=True)
        server.serve_forever()


def started(site: Path, address: str, seconds: float, log: Path, port: int = 0) -> tuple[str, int]:
    """A process that outlives us (molecule's create and converge are two), and its id; it ends after `seconds` or when it is killed.

    Raises RuntimeError with its words where it does not start.
    """
    tests = Path(__file__).resolve().parents[1]
    program = f"import sys; sys.path[0] = {str(tests)!r}; from lab.packages import main; sys.exit(main(sys.argv[1:]))"
    argv = [sys.executable, "-c", program, "serve", str(site), "--bind", address, "--port", str(port), "--seconds", str(seconds)]
    with log.open("w") as out:
        process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True)
    deadline = time.monotonic() + READY_S
    while process.poll() is None and time.monotonic() < deadline:
        if (said := log.read_text()).endswith("\n"):
            return said.strip(), process.pid
        time.sleep(0.02)
    process.kill()
    raise RuntimeError(f"the repository's server did not start: {log.read_text()}")
