"""`kind: broker-log`: a copy of a broker's log directory, `<root>/<date>/…/<topic>-<partition>/<file>`.

Files of a log directory that are derived or about to be deleted (facts §1.1) are not staged.
"""

from datetime import date
from typing import ClassVar

from spark_jobs.kafka.formats.log_files import (
    CLUSTER_METADATA_DIR,
    LEADER_EPOCH_CHECKPOINT,
    PARTITION_METADATA,
    FileSuffix,
    LogFileKind,
    parse_file_name,
)
from spark_jobs.kafka.producers.producer_state import AppendOrigin
from spark_jobs.lake.manifest import ObjectRole
from spark_jobs.lake.object_store import ObjectStat
from spark_jobs.sources.broker_files import COPY_TIMES, LOG_DIRECTORY_FILES
from spark_jobs.sources.source import Placed, SourceReader, partition_directory

PARTITION_FILES = {
    LEADER_EPOCH_CHECKPOINT: ObjectRole.LEADER_EPOCHS,
    PARTITION_METADATA: ObjectRole.PARTITION_METADATA,
}
SEGMENT_FILES = {
    (LogFileKind.LOG, None): ObjectRole.LOG,
    (LogFileKind.LOG, FileSuffix.SWAP): ObjectRole.SWAP,
    (LogFileKind.SNAPSHOT, None): ObjectRole.SNAPSHOT,
    (LogFileKind.TXN_INDEX, None): ObjectRole.TXN_INDEX,
}


class BrokerLog(SourceReader):
    """One copy per partition directory; without dates the copy is updated in place, by rsync for example."""

    origin: ClassVar[AppendOrigin] = AppendOrigin.REPLICATION

    @property
    def is_updated_in_place(self) -> bool:
        return self.source.dates is None

    def place_below_date(self, stat: ObjectStat, day: date | None, parts: list[str]) -> Placed | None:
        if parts[-1] in LOG_DIRECTORY_FILES:  # by name first: a log directory may itself be called `broker-1`
            return Placed(source=self.source, stat=stat, role=ObjectRole.LOG_DIRECTORY, day=day)
        if parts[-1] == COPY_TIMES:
            return Placed(source=self.source, stat=stat, role=ObjectRole.COPY_TIMES, day=day)
        found, role = partition_directory(parts), _role_in_partition(parts[-1])
        if found is None or role is None or found.suffix is not None or parts[-2] == CLUSTER_METADATA_DIR:
            return None
        if not self.source.topics.takes(found.topic):
            return None
        return Placed(
            source=self.source,
            stat=stat,
            role=role,
            topic=found.topic,
            partition=found.partition,
            day=day,
        )


def _role_in_partition(name: str) -> ObjectRole | None:
    file = parse_file_name(name)
    return PARTITION_FILES.get(name) if file is None else SEGMENT_FILES.get((file.kind, file.suffix))
