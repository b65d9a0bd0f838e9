"""What listens on this machine for a run listens on loopback alone, and asks who is there."""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import yaml

from spark_jobs.execution.classic import QUIET, prepare_environment
from spark_jobs.execution.spark import Spark
from tests.faults.processes import below, called_with

LOOPBACK = {"0100007F", "0000000000000000FFFF00000100007F", "00000000000000000000000001000000"}
LISTENING = "0A"
NAMED = 7
"""Columns of a socket without a name."""
OTHERS_WRITE = 0o022
ROOT = Path(__file__).parents[2]


def _listening() -> dict[str, str]:
    """Every listening socket of the machine: inode → address."""
    files = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))
    lines = [line.split() for file in files if file.exists() for line in file.read_text().splitlines()[1:]]
    return {fields[9]: fields[1].partition(":")[0] for fields in lines if fields[3] == LISTENING}


def _sockets_of(pid: int) -> set[str]:
    try:
        names = [str(descriptor.readlink()) for descriptor in Path(f"/proc/{pid}/fd").iterdir()]
    except OSError:
        return set()  # ended meanwhile
    return {name[len("socket:[") : -1] for name in names if name.startswith("socket:[")}


def _mode(file: Path) -> Iterator[int]:
    """Nothing of a file that is gone, whose socket lasts as long as its last connection."""
    with suppress(FileNotFoundError):
        yield file.stat().st_mode


def test_sparks_processes_listen_on_loopback_only(spark: Spark) -> None:
    spark.run_tasks(len, ["a", "bc"])
    ours = below(called_with(), _this())
    addresses = {
        address for inode, address in _listening().items() if any(inode in _sockets_of(pid) for pid in ours)
    }
    assert addresses
    assert addresses <= LOOPBACK


def test_sparks_sockets_in_the_file_system_are_for_its_own_user(spark: Spark) -> None:
    spark.run_tasks(len, ["a", "bc"])
    ours = set().union(*map(_sockets_of, below(called_with(), _this())))
    lines = [line.split() for line in Path("/proc/net/unix").read_text().splitlines()[1:]]
    files = {Path(line[7]) for line in lines if len(line) > NAMED and line[6] in ours and line[7][0] == "/"}
    modes = {file: mode for file in files for mode in _mode(file)}
    assert modes
    assert [file for file, mode in modes.items() if mode & OTHERS_WRITE] == []


def test_spark_has_no_pages_unless_they_are_asked_for() -> None:
    assert QUIET["spark.ui.enabled"] == "false"


def test_spark_binds_to_loopback_unless_configured_otherwise() -> None:
    environment: dict[str, str] = {}
    prepare_environment(environment)
    assert environment["SPARK_LOCAL_IP"] == "127.0.0.1"


def test_the_cluster_publishes_its_ports_on_loopback_only() -> None:
    services = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"].values()
    published = [str(port) for service in services for port in service.get("ports", [])]
    assert published
    assert [port for port in published if not port.startswith("127.0.0.1:")] == []


def _this() -> int:
    return int(Path("/proc/self").readlink().name)
