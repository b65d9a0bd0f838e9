"""Sits between a client and a real S3 server, and spoils chosen answers: errors, delays, torn bodies."""

import http.client
import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar
from urllib.parse import urlsplit


@dataclass(frozen=True, slots=True, kw_only=True)
class Spoiled:
    """What happens to one answer: a wait before it, another status, or only so many bytes of its body.

    With `lost`, the server does what it was asked before another status is answered in its name. Without
    `etags`, neither headers nor listings tell one.
    """

    status: int = 0
    lost: bool = False
    wait_s: float = 0
    body_bytes: int | None = None
    etags: bool = True


Fault = Callable[[str, str], Spoiled | None]
"""From method and path to what is spoiled; None lets the answer through."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    upstream: ClassVar[list[str]]
    fault: ClassVar[list[Fault]]

    def do_GET(self) -> None:
        spoiled = self.fault[0](self.command, self.path) or Spoiled()
        sent = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        time.sleep(spoiled.wait_s)
        if spoiled.status and not spoiled.lost:
            self._reply(spoiled.status, [("Content-Length", "0")], b"")
            return
        try:
            self._forward(sent, spoiled)
        except (OSError, http.client.HTTPException):
            self.close_connection = True  # the server is gone

    do_PUT = do_POST = do_HEAD = do_DELETE = do_GET  # noqa: N815 -- the names that http.server calls

    def _forward(self, sent: bytes, spoiled: Spoiled) -> None:
        connection = http.client.HTTPConnection(self.upstream[0])
        connection.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
        for name, value in self.headers.items():
            if name.lower() not in {"expect", "connection"}:
                connection.putheader(name, value)
        connection.endheaders(sent)
        answer = connection.getresponse()
        body = answer.read()
        headers = [pair for pair in answer.getheaders() if pair[0].lower() != "transfer-encoding"]
        if not spoiled.etags:
            headers, body = _without_etags(headers, body)
        self._reply(spoiled.status or answer.status, headers, body[: spoiled.body_bytes])
        self.close_connection = spoiled.body_bytes is not None
        connection.close()

    def _reply(self, status: int, headers: list[tuple[str, str]], body: bytes) -> None:
        try:
            self.send_response_only(status)
            for name, value in headers:
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)
        except OSError:
            self.close_connection = True  # the client gave up waiting

    def log_message(self, *args: object) -> None:
        """Silence."""


def _without_etags(headers: list[tuple[str, str]], body: bytes) -> tuple[list[tuple[str, str]], bytes]:
    """A listing gets shorter by them, what a HEAD says of an object's length stays."""
    left = re.sub(rb"<ETag>.*?</ETag>", b"", body)
    kept = [pair for pair in headers if pair[0].lower() != "etag"]
    if left == body:
        return kept, body
    others = [pair for pair in kept if pair[0].lower() != "content-length"]
    return [*others, ("Content-Length", str(len(left)))], left


class FaultyS3:
    """The proxy's address, and the fault that it applies from now on."""

    def __init__(self, endpoint_url: str, upstream: list[str], faults: list[Fault]) -> None:
        self.endpoint_url = endpoint_url
        self._upstream = upstream
        self._faults = faults

    def redirect(self, upstream: str) -> None:
        """Forwards to another server from now on."""
        self._upstream[0] = urlsplit(upstream).netloc

    def spoil(self, fault: Fault) -> None:
        """Applies `fault` to every answer from now on."""
        self._faults[0] = fault

    def spoil_first(self, count: int, spoiled: Spoiled, *, method: str = "GET") -> None:
        """Spoils the first `count` answers to `method`."""
        left = iter(range(count))

        def fault(asked: str, path: str) -> Spoiled | None:
            return spoiled if asked == method and next(left, None) is not None else None

        self.spoil(fault)


@contextmanager
def faulty_s3(upstream: str) -> Iterator[FaultyS3]:
    """A proxy before the server at `upstream` that forwards everything until it is set to fail."""
    faults: list[Fault] = [lambda method, path: None]
    servers = [urlsplit(upstream).netloc]
    members = {"upstream": servers, "fault": faults}
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), members))
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield FaultyS3(f"http://127.0.0.1:{server.server_port}", servers, faults)
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
