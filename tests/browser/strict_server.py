"""Serves a site below a prefix, under a policy that allows nothing but the server's own files."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

PREFIX = "/some/where"
POLICY = "default-src 'self'"


@dataclass(frozen=True, slots=True)
class StrictServer:
    url: str


class _Handler(SimpleHTTPRequestHandler):
    def end_headers(self) -> None:
        self.send_header("Content-Security-Policy", POLICY)
        self.send_header("X-Content-Type-Options", "nosniff")
        super().end_headers()

    def translate_path(self, path: str) -> str:
        if not path.startswith(f"{PREFIX}/"):
            return "/nowhere"
        return super().translate_path(path.removeprefix(PREFIX))

    def log_message(self, *_: object) -> None:
        """Says nothing."""


@contextmanager
def strict_server(directory: Path) -> Iterator[StrictServer]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Handler, directory=str(directory)))
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield StrictServer(f"http://127.0.0.1:{server.server_port}{PREFIX}")
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
