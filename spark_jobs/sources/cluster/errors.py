"""Errors of a fetch from a live cluster."""

from typing import ClassVar

from spark_jobs.config.sources import Source
from spark_jobs.lake.errors import StorageError, StoreDenied


class ClusterUnavailable(StorageError):
    """Brokers did not answer properly, even after retries."""

    transient: ClassVar[bool] = True


class VersionMissing(ClusterUnavailable):
    """A broker does not speak a version of a request that is needed."""

    transient: ClassVar[bool] = False


class QuotaExceeded(ClusterUnavailable):
    """A broker throttles every Fetch, so that nothing is fetched."""


class ClusterDenied(StoreDenied):
    """The cluster refused the credentials, or the principal may not read a topic: a person has to act."""


class LogDiverged(StorageError):
    """The cluster lost or replaced offsets that were fetched before: a person has to act."""


class OtherCluster(StorageError):
    """`bootstrap` leads to another cluster than the one that was fetched before: a person has to act."""


def check_cluster(source: Source, before: str, found: str) -> None:
    """Raises `OtherCluster` if the ids of both clusters are known and differ."""
    if before and found and before != found:
        raise OtherCluster(
            f"source {source.name}: the brokers at bootstrap ({','.join(source.bootstrap)}) are of cluster "
            f"{found}, but earlier runs fetched from cluster {before}. Correct bootstrap, or give the other "
            "cluster a source of its own with another name"
        )
