"""The Java client, in a process of its own; it needs a JDK, since its source is compiled as it starts."""

import shutil
from pathlib import Path

from tests.broker.clients.process import run_client
from tests.broker.clients.workplace import Workplace
from tests.broker.judge import kafka_jars

SOURCE = Path(__file__).with_name("Transactions.java")


def has_compiler() -> bool:
    return shutil.which("javac") is not None


class JavaClient:
    """Runs until it is stopped, or for this long."""

    def __init__(self, work: Workplace, name: str, *, seconds: float | None = None) -> None:
        self.work, self.name, self.seconds = work, name, seconds

    def run(self) -> None:
        command = ["java", "-Xmx256m", "-XX:TieredStopAtLevel=1", "-cp", f"{kafka_jars()}/*", str(SOURCE)]
        run_client(self.work, [*command, self.name], seconds=self.seconds)
