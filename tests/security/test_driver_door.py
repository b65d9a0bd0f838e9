"""The warm driver accepts requests only from its owner; invalid requests neither stop nor block it."""

import os
import socket
import stat
import tempfile
from collections.abc import Iterator
from datetime import date
from pathlib import Path

import pytest

from spark_jobs.driver import server
from spark_jobs.driver.client import run_step, stop_driver
from spark_jobs.driver.protocol import DriverFiles, StepRequest, UnsafeDirectory, driver_files
from spark_jobs.flow import Step
from tests.pipeline.index.objects import plain_object
from tests.pipeline.runs import CAPTURE, place_at

NOBODY = 65534
NONSENSE = {
    "no JSON": b"GET / HTTP/1.1\r\n",
    "no message": b'{"is": "Shutdown"}\n',
    "no object": b"[1, 2]\n",
    "a number": b"7\n",
    "missing fields": b'{"is": "StepRequest"}\n',
    "a step that is none": b'{"is": "StepRequest", "day": "2024-05-01", "step": "rm -rf", "config": "x"}\n',
    "an unhashable name": b'{"is": {}}\n',
    "very deep": b"[" * 100_000 + b"\n",
    "no end": b"x" * (server.MOST_REQUEST_BYTES + 10),
    "bytes": bytes(range(256)),
}


@pytest.fixture
def asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[StepRequest]:
    """A request that a driver has answered, which now waits for more; its place is where all may look."""
    with tempfile.TemporaryDirectory() as directory:
        Path(directory).chmod(0o755)
        monkeypatch.setenv("XDG_RUNTIME_DIR", directory)
        yield from _answered(tmp_path)


def _answered(tmp_path: Path) -> Iterator[StepRequest]:
    place_at(tmp_path).arrive("dt=2024-05-01/orders-0/a", plain_object(3))
    config = tmp_path / "onceover.yaml"
    config.write_text(CAPTURE)
    request = StepRequest(config=str(config), day=date(2024, 5, 1), step=Step.STAGE, more_steps_follow=True)
    run_step(request, log=print)
    yield request
    stop_driver(request)


def _place(request: StepRequest) -> DriverFiles:
    return driver_files(request.config, "")


def test_nobody_but_the_owner_comes_near(asked: StepRequest) -> None:
    place = _place(asked)
    assert stat.S_IMODE(place.directory.stat().st_mode) == 0o700
    assert stat.S_IMODE(place.log.stat().st_mode) == 0o600
    assert place.directory.stat().st_uid == os.getuid()


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")
def test_another_user_cannot_connect(asked: StepRequest) -> None:
    door = str(_place(asked).socket)
    child = os.fork()
    if child == 0:
        os.setuid(NOBODY)
        refused = 1
        try:
            socket.socket(socket.AF_UNIX).connect(door)
        except PermissionError:
            refused = 0
        finally:
            os._exit(refused)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_nonsense_is_not_answered_and_the_driver_continues(asked: StepRequest) -> None:
    place = _place(asked)
    before = place.socket.stat().st_ino
    for name, nonsense in NONSENSE.items():
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(str(place.socket))
            try:
                connection.sendall(nonsense)
                connection.shutdown(socket.SHUT_WR)
                assert connection.recv(100) == b"", name
            except (BrokenPipeError, ConnectionResetError):
                pass  # it hung up before all was said
    assert not run_step(asked, log=print).worked
    assert place.socket.stat().st_ino == before


def test_a_caller_who_says_nothing_does_not_keep_others_waiting(
    asked: StepRequest,
) -> None:
    with socket.socket(socket.AF_UNIX) as silent:
        silent.connect(str(_place(asked).socket))
        assert not run_step(asked, log=print).worked


def test_a_directory_that_someone_else_made_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir(mode=0o700)
    (tmp_path / f"onceover-{os.getuid()}").symlink_to(elsewhere)
    with pytest.raises(UnsafeDirectory, match="belongs to this user alone"):
        driver_files("a")
