"""The kinds of `spark.master` (local, cluster, Spark Connect), and whether executors can read the paths."""

import re
from collections.abc import Iterator
from ipaddress import ip_address
from urllib.parse import urlsplit

from spark_jobs.config.load import InvalidConfig
from spark_jobs.config.settings import Settings

CONNECT = "sc://"
CONNECT_PORT = 15002
_LOCAL = re.compile(r"local(-cluster)?(\[.*\])?")


def is_local(master: str) -> bool:
    """Whether tasks run in the JVM of this process or in children of it."""
    return _LOCAL.fullmatch(master) is not None


def is_connect(master: str) -> bool:
    return master.startswith(CONNECT)


def is_on_this_machine(master: str) -> bool:
    """Whether all workers are on this machine, as far as the address says."""
    return is_local(master) or _is_loopback(urlsplit(master).hostname or "")


def connect_address(master: str) -> tuple[str, int]:
    """Host and port of a Connect server."""
    parts = urlsplit(master)
    return parts.hostname or "", parts.port or CONNECT_PORT


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


REMOTE = "s3://"


def check_executors_reach(settings: Settings, master: str) -> None:
    """Refuses paths of this machine where executors run on others."""
    if is_on_this_machine(master) or settings.spark.shared_paths:
        return
    paths = [f"{name} {path}" for name, path in _locations(settings) if not path.startswith(REMOTE)]
    if paths:
        raise InvalidConfig(
            f"spark.master {master} has executors on other machines, which do not see the path of "
            f"{', '.join(paths)}: use s3://…, or set spark.shared_paths: true if every executor has that path"
        )


def _locations(settings: Settings) -> Iterator[tuple[str, str]]:
    yield "lake", settings.lake
    yield from ((f"source '{source.name}'", source.root) for source in settings.sources)
