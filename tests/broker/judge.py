"""Start, stop and kill a real Apache Kafka: 4.3.1, or older (one node, loopback only)."""

import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import SystemRandom

from tests.maven import JarsMissing, fetched_jars

KAFKA_VERSION = "4.3.1"
START_SECONDS = 240
STOP_SECONDS = 120
INTERNAL_PARTITIONS = 4
FIRST_PORT = 10_000
GIVEN_PORTS = Path("/proc/sys/net/ipv4/ip_local_port_range")
COMMON_SETTINGS = {
    "auto.create.topics.enable": "false",
    "offsets.topic.num.partitions": str(INTERNAL_PARTITIONS),
    "transaction.state.log.num.partitions": str(INTERNAL_PARTITIONS),
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.max.timeout.ms": "3600000",
    "group.initial.rebalance.delay.ms": "0",
}
"""Few partitions, so that copies stay small."""


class JudgeUnavailableError(Exception):
    """Kafka is not available on this machine; the message says what is missing."""


def kafka_jars() -> Path:
    """The folder with Kafka's jars, fetched through Maven the first time."""
    if not shutil.which("java"):
        raise JudgeUnavailableError("broker tests need Java on the PATH")
    try:
        return fetched_jars("kafka")
    except JarsMissing as missing:
        raise JudgeUnavailableError(str(missing)) from None


def tiered_jars() -> Path:
    """The folder with the jars of LocalTieredStorage, fetched through Maven the first time."""
    try:
        return fetched_jars("kafka/tiered")
    except JarsMissing as missing:
        raise JudgeUnavailableError(str(missing)) from None


def java_command(
    main_class: str,
    *arguments: str,
    heap: str = "512m",
    more_jars: Sequence[Path] = (),
    jars: Path | None = None,
) -> list[str]:
    """A command line that runs one of Kafka's own classes, of another version with `jars`."""
    return [
        "java",
        f"-Xmx{heap}",
        "-XX:TieredStopAtLevel=1",
        "-cp",
        ":".join(f"{folder}/*" for folder in (jars or kafka_jars(), *more_jars)),
        main_class,
        *arguments,
    ]


def free_port() -> int:
    """A free port outside the range of ephemeral ports.

    Clients keep connecting to the port of a stopped broker: no other server must get that port.
    """
    given = int(GIVEN_PORTS.read_text().split()[0])
    while True:
        port = SystemRandom().randrange(FIRST_PORT, max(given, 2 * FIRST_PORT))
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


def server_properties(log_dir: Path, port: int, controller_port: int, overrides: dict[str, str]) -> str:
    """A single node that is broker and controller, with few internal partitions so that copies stay small."""
    settings = {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.quorum.voters": f"1@127.0.0.1:{controller_port}",
        "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}",
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port}",
        "controller.listener.names": "CONTROLLER",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "log.dirs": str(log_dir),
        **COMMON_SETTINGS,
        "broker.session.timeout.ms": "6000",
        "log.initial.task.delay.ms": "3600000",
    }
    return properties(settings | overrides)


def properties(settings: dict[str, str]) -> str:
    """The text of a properties file."""
    return "".join(f"{key}={value}\n" for key, value in settings.items())


@dataclass
class Broker:
    """One broker; `folder` holds its settings, its log directory `data` and what it printed."""

    folder: Path
    overrides: dict[str, str] = field(default_factory=dict)
    port: int = field(default_factory=free_port)
    controller_port: int = field(default_factory=free_port)
    features: dict[str, int] = field(default_factory=dict)
    more_jars: tuple[Path, ...] = ()
    jars: Path | None = None
    process: subprocess.Popen[bytes] | None = None

    @property
    def data(self) -> Path:
        return self.folder / "data"

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def format(self) -> None:
        """Give the log directory its cluster id; done once."""
        self.folder.mkdir(parents=True, exist_ok=True)
        text = server_properties(self.data, self.port, self.controller_port, self.overrides)
        (self.folder / "server.properties").write_text(text)
        arguments = ["format", "-t", "onceoverAAAAAAAAAAAAAA", "-c", str(self.folder / "server.properties")]
        for name, level in self.features.items():
            arguments += ["--feature", f"{name}={level}"]
        command = java_command("kafka.tools.StorageTool", *arguments, jars=self.jars)
        subprocess.run(command, check=True, capture_output=True)

    def start(self) -> None:
        """Starts the broker and waits until it accepts connections."""
        properties = str(self.folder / "server.properties")
        command = java_command("kafka.Kafka", properties, more_jars=self.more_jars, jars=self.jars)
        with (self.folder / "broker.log").open("ab") as out:
            environment = os.environ | {"LOG_DIR": str(self.folder)}
            self.process = subprocess.Popen(command, stdout=out, stderr=out, env=environment)
        deadline = time.monotonic() + START_SECONDS
        while not self._listening():
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise JudgeUnavailableError(f"the broker did not start: see {self.folder / 'broker.log'}")
            time.sleep(0.2)

    def _listening(self) -> bool:
        with socket.socket() as probe:
            probe.settimeout(0.5)
            return probe.connect_ex(("127.0.0.1", self.port)) == 0

    def stop(self) -> None:
        """A clean shutdown."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """SIGKILL: what reached the page cache stays, nothing else is written."""
        self._end(signal.SIGKILL)

    def _end(self, number: signal.Signals) -> None:
        if self.process is not None:
            self.process.send_signal(number)
            self.process.wait(timeout=STOP_SECONDS)
            self.process = None


@dataclass
class ZooKeeperBroker(Broker):
    """A broker of a version before KRaft, with a ZooKeeper of its own at `controller_port`."""

    keeper: subprocess.Popen[bytes] | None = None

    def format(self) -> None:
        """Writes the settings of both; such a version has nothing to format."""
        self.folder.mkdir(parents=True, exist_ok=True)
        keeper = {
            "dataDir": str(self.folder / "zookeeper"),
            "clientPort": str(self.controller_port),
            "clientPortAddress": "127.0.0.1",
            "admin.enableServer": "false",
        }
        broker = {
            "broker.id": "1",
            "zookeeper.connect": f"127.0.0.1:{self.controller_port}",
            "zookeeper.connection.timeout.ms": str(START_SECONDS * 1000),
            "listeners": f"PLAINTEXT://127.0.0.1:{self.port}",
            "log.dirs": str(self.data),
            **COMMON_SETTINGS,
            **self.overrides,
        }
        for name, settings in (("zookeeper.properties", keeper), ("server.properties", broker)):
            (self.folder / name).write_text(properties(settings))

    def start(self) -> None:
        """Starts ZooKeeper first."""
        command = java_command(
            "org.apache.zookeeper.server.quorum.QuorumPeerMain",
            str(self.folder / "zookeeper.properties"),
            heap="128m",
            jars=self.jars,
        )
        with (self.folder / "zookeeper.log").open("ab") as out:
            self.keeper = subprocess.Popen(command, stdout=out, stderr=out)
        super().start()

    def _end(self, number: signal.Signals) -> None:
        super()._end(number)
        if self.keeper is not None:
            self.keeper.kill()
            self.keeper.wait(timeout=STOP_SECONDS)
            self.keeper = None
