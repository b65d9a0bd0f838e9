"""A bucket whose server lists names that no file system would hold: each is taken as a name, or set aside."""

import threading
from collections.abc import Iterator
from datetime import date
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import quote

import pytest

from spark_jobs.config.load import parse_settings
from spark_jobs.lake.chain import read_chain
from spark_jobs.lake.manifest import SetAside
from spark_jobs.lake.stores import open_lake, open_store
from spark_jobs.pipeline.stage.step import stage

PLACE = "dt=2024-05-01/orders-0/"
FINE = ["a", "n" * 1000, "Заказ", "注文", "طلب", "a..b", "%2e%2e", "<script>", "'; drop table"]
HOSTILE = ["../../../../etc/passwd", "..", "a/../../b", "a\0b", "a\nb", "\x1b[2J", "n" * 1100, "/etc/passwd"]
BODY = b"some bytes"
CONFIG = """
lake: lake
sources:
  - {{name: gateway, kind: capture, root: 's3://bucket/in', dates: dt=%Y-%m-%d}}
s3: {{endpoint_url: '{endpoint}', addressing: path, max_attempts: 1}}
"""


def _listing() -> bytes:
    keys = sorted(f"in/{PLACE}{name}" for name in (*FINE, *HOSTILE))
    found = "".join(
        f"<Contents><Key>{quote(key)}</Key><Size>{len(BODY)}</Size><ETag>&quot;1&quot;</ETag></Contents>"
        for key in keys
    )
    encoded = "<EncodingType>url</EncodingType><IsTruncated>false</IsTruncated>"
    return f"<?xml version='1.0'?><ListBucketResult>{encoded}{found}</ListBucketResult>".encode()


class _Server(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        body = _listing() if "list-type=2" in self.path else BODY
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("ETag", '"1"')
        self.end_headers()
        self.wfile.write(body)

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        """Logs nothing."""


@pytest.fixture
def endpoint(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "a")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "b")
    with ThreadingHTTPServer(("127.0.0.1", 0), _Server) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_names_of_a_hostile_server_are_taken_or_set_aside_and_leave_nothing_outside(
    endpoint: str, tmp_path: Path
) -> None:
    open_store.cache_clear()
    home = tmp_path / "home"
    home.mkdir()
    settings = parse_settings(CONFIG.format(endpoint=endpoint), name="test.yaml", base=home)
    lake = open_lake(settings)
    manifest = stage(settings, date(2024, 5, 1), lake=lake, chain=read_chain(lake))
    assert {entry.name for entry in manifest.entries} == set(FINE)
    assert {problem.reason for problem in manifest.problems} == {SetAside.UNSAFE_NAME}
    assert {problem.path for problem in manifest.problems} == {f"{PLACE}{name}" for name in HOSTILE}
    assert all(problem.detail.isprintable() for problem in manifest.problems)
    assert list(tmp_path.iterdir()) == [home]
    assert [path.name for path in home.iterdir()] == ["lake"]
