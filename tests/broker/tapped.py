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
NAMES = ("PLAINTEXT", "TAPPED", "BROKERS", "CONTROLLER")


@dataclass(frozen=True)
class Ports:
    """Where a tap listens and the broker's listener behind it: for clients, and for brokers."""

    clients: int = field(default_factory=free_port)
    behind_clients: int = field(default_factory=free_port)
    brokers: int = field(default_factory=free_port)
    behind_brokers: int = field(default_factory=free_port)


def tapped_broker(folder: Path, ports: Ports, overrides: dict[str, str]) -> Broker:
    """A broker with a listener for clients of the tap, and one through which brokers go by the tap."""
    port, controller = free_port(), free_port()
    at = [f"{name}://127.0.0.1:" for name in NAMES]
    bound = (port, ports.behind_clients, ports.behind_brokers, controller)
    listeners = {
        "listeners": ",".join(f"{name}{number}" for name, number in zip(at, bound, strict=True)),
        "advertised.listeners": f"{at[0]}{port},{at[1]}{ports.clients},{at[2]}{ports.brokers}",
        "listener.security.protocol.map": ",".join(f"{name}:PLAINTEXT" for name in NAMES),
        "inter.broker.listener.name": NAMES[2],
    }
    return Broker(folder, overrides | listeners, port=port, controller_port=controller)


@dataclass
class TapProcess:
    """`onceover tap` as a user starts it; its lines are in `log`."""

    ports: Ports
    root: str
    spool: Path
    log: Path
    more: tuple[str, ...] = ()
    process: subprocess.Popen[bytes] | None = field(default=None, init=False)

    def start(self) -> None:
        command = [sys.executable, "-m", "spark_jobs", "tap", "--root", self.root, "--spool", str(self.spool)]
        ports = self.ports
        for here, behind in (
            (ports.clients, ports.behind_clients),
            (ports.brokers, ports.behind_brokers),
        ):
            address = f"127.0.0.1:{here}"
            command += ["--listen", address, "--advertise", address, "--broker", f"127.0.0.1:{behind}"]
        with self.log.open("ab") as out:
            self.process = subprocess.Popen([*command, "--name", "tap", *self.more], stdout=out, stderr=out)
        deadline = time.monotonic() + START_SECONDS
        while not self._listening():
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"the tap did not start: {self.log.read_text()}")
            time.sleep(0.05)

    def _listening(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.ports.brokers)) == 0

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
