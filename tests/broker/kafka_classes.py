"""Kafka's own classes in a process of their own: a request per line in, an answer per line out.

`java/Judge.java` is compiled against the jars of `infra/kafka/pom.xml` and kept beside them.
"""

import json
import shutil
import subprocess
from base64 import b64decode, b64encode
from hashlib import sha256
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from spark_jobs.kafka.errors import KafkaError
from tests.broker.judge import JudgeUnavailableError, kafka_jars

SOURCE = Path(__file__).parent / "java" / "Judge.java"
HEAP = "512m"
COMPILE_SECONDS = 300


def judge_classes() -> Path:
    """The folder with the compiled judge; compiled again whenever its source or Kafka's jars change."""
    jars = kafka_jars()
    digest = sha256(SOURCE.read_bytes() + (jars / ".complete").read_bytes()).hexdigest()[:16]
    folder = jars.with_name(f"judge-{digest}")
    if folder.is_dir():
        return folder
    if not shutil.which("javac"):
        raise JudgeUnavailableError("Kafka's classes as judge need javac (a JDK, not a JRE) on the PATH")
    building = folder.with_name(f"{folder.name}.{sha256(str(Path.cwd()).encode()).hexdigest()[:8]}")
    command = ["javac", "-Xlint:all,-processing", "-d", str(building), "-cp", f"{jars}/*", str(SOURCE)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=COMPILE_SECONDS, check=False)
    if done.returncode:
        raise AssertionError(f"{SOURCE.name} does not compile against {jars}:\n{done.stderr}")
    shutil.move(building, folder)
    return folder


class Judge:
    """The process; an answer's `error`, if there is one, is the name of Kafka's error."""

    def __init__(self) -> None:
        path = f"{judge_classes()}:{kafka_jars()}/*"
        command = ["java", f"-Xmx{HEAP}", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", path, "Judge"]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )

    def ask(self, action: str, **request: Any) -> dict[str, Any]:
        """One request; bytes in it may be given as they are."""
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        stdin.write(json.dumps({"do": action, **request}, default=_encoded).encode() + b"\n")
        stdin.flush()
        line = stdout.readline()
        if not line:
            raise AssertionError(f"the judge ended with {self._process.wait()} when asked to {action}")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def demand(self, action: str, **request: Any) -> dict[str, Any]:
        """One request that must not fail."""
        answer = self.ask(action, **request)
        if "error" in answer:
            raise AssertionError(f"the judge cannot {action}: {answer}")
        return answer

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()


def _encoded(value: Any) -> str:
    if isinstance(value, bytes | bytearray | memoryview):
        return b64encode(value).decode()
    raise TypeError(f"{type(value).__name__} in a request")


def decoded(value: str | None) -> bytes | None:
    """Bytes of an answer."""
    return None if value is None else b64decode(value)


def error_of(answer: dict[str, Any]) -> KafkaError:
    """Kafka's error in an answer."""
    return KafkaError[answer["error"]] if "error" in answer else KafkaError.NONE
