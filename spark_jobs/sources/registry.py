"""The kinds of sources by the name that the configuration gives them; nothing else names a kind."""

from collections.abc import Mapping

from spark_jobs.config.sources import Source, SourceKind
from spark_jobs.sources.broker_log import BrokerLog
from spark_jobs.sources.capture import Capture
from spark_jobs.sources.cluster.reader import Cluster
from spark_jobs.sources.source import SourceReader
from spark_jobs.sources.tiered import Tiered

READERS: Mapping[SourceKind, type[SourceReader]] = {
    SourceKind.BROKER_LOG: BrokerLog,
    SourceKind.CAPTURE: Capture,
    SourceKind.CLUSTER: Cluster,
    SourceKind.TIERED: Tiered,
}


def capture_at(root: str, dates: str | None) -> SourceReader:
    """A capture that no configuration names."""
    return Capture(Source(name="capture", kind=SourceKind.CAPTURE, root=root, dates=dates))


def reader_of(source: Source) -> SourceReader:
    """The source as its kind reads it."""
    return READERS[source.kind](source)
