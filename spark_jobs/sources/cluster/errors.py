"""Errors of a fetch from a live cluster."""

from typing import ClassVar

from spark_jobs.lake.errors import StorageError, StoreDenied


class ClusterUnavailable(StorageError):
    """Brokers did not answer properly, even after retries."""

    transient: ClassVar[bool] = True


class VersionMissing(ClusterUnavailable):
    """A broker does not speak a version of a request that is needed."""

    transient: ClassVar[bool] = False


class ClusterDenied(StoreDenied):
    """The cluster refused the credentials, or the principal may not read a topic: a person has to act."""


class LogDiverged(StorageError):
    """The cluster lost or replaced offsets that were fetched before: a person has to act."""
