"""The Java client, in a process of its own; it needs a JDK, since its source is compiled as it starts."""

import shutil
import subprocess
from pathlib import Path

from tests.broker.clients.journal import Outcome, Sent
from tests.broker.clients.workplace import Workplace
from tests.broker.judge import kafka_jars

SOURCE = Path(__file__).with_name("Transactions.java")
END_SECONDS = 240


def has_compiler() -> bool:
    return shutil.which("javac") is not None


class JavaClient:
    """Runs until it is told to stop, or for so long; its journal is what it printed."""

    def __init__(self, work: Workplace, name: str, *, seconds: float | None = None) -> None:
        self.work, self.name, self.seconds = work, name, seconds

    def run(self) -> None:
        command = ["java", "-Xmx256m", "-XX:TieredStopAtLevel=1", "-cp", f"{kafka_jars()}/*", str(SOURCE)]
        command += [self.work.address, self.name, str(self.work.seed)]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
            self.work.stopped.wait(self.seconds)
            printed, _ = process.communicate(timeout=END_SECONDS)
        if process.returncode:
            raise RuntimeError(f"the Java client ended with {process.returncode}")
        for line in printed.splitlines():
            outcome, name, *records = line.split("\t")
            self.work.journal.note(name, map(_sent, records), Outcome(outcome))


def _sent(text: str) -> Sent:
    topic, partition, value = text.split(" ", 2)
    return topic, int(partition), value.encode()
