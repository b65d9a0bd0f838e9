"""A broker with a listener whose advertised address is a tap's, and the tap as a process before it."""

import signal
import socket
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

from tests.broker.judge import Broker, free_port

START_SECONDS = 60
STOP_SECONDS = 60
LISTENERS = "PLAINTEXT:PLAINTEXT,TAPPED:PLAINTEXT,CONTROLLER:PLAINTEXT"


def tapped_broker(folder: Path, tap_port: int, overrides: dict[str, str]) -> tuple[Broker, int]:
    """A broker with a second listener for the tap; returns the port of that listener, too."""
    port, controller, behind = free_port(), free_port(), free_port()
    listeners = {
        "listeners": f"PLAINTEXT://127.0.0.1:{port},TAPPED://127.0.0.1:{behind},"
        f"CONTROLLER://127.0.0.1:{controller}",
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port},TAPPED://127.0.0.1:{tap_port}",
        "listener.security.protocol.map": LISTENERS,
        "inter.broker.listener.name": "PLAINTEXT",
    }
    return Broker(folder, overrides | listeners, port=port, controller_port=controller), behind


@dataclass
class TapProcess:
    """`onceover tap` as a user starts it; its lines are in `log`."""

    port: int
    behind: int
    root: str
    spool: Path
    log: Path
    more: tuple[str, ...] = ()
    process: subprocess.Popen[bytes] | None = field(default=None, init=False)

    def start(self) -> None:
        address = f"127.0.0.1:{self.port}"
        command = [sys.executable, "-m", "spark_jobs", "tap", "--listen", address, "--advertise", address]
        command += ["--broker", f"127.0.0.1:{self.behind}", "--root", self.root, "--spool", str(self.spool)]
        with self.log.open("ab") as out:
            self.process = subprocess.Popen([*command, "--name", "tap", *self.more], stdout=out, stderr=out)
        deadline = time.monotonic() + START_SECONDS
        while not self._listening():
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"the tap did not start: {self.log.read_text()}")
            time.sleep(0.05)

    def _listening(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0

    def stop(self) -> int:
        """SIGTERM; the exit code."""
        return self._end(signal.SIGTERM)

    def kill(self) -> int:
        return self._end(signal.SIGKILL)

    def _end(self, number: signal.Signals) -> int:
        if self.process is None:
            return 0
        self.process.send_signal(number)
        code = self.process.wait(STOP_SECONDS)
        self.process = None
        return code
