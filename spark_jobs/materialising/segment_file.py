"""One segment of the accepted log in the making: its batches as they were sent, stamped (facts §1.3)."""

from collections.abc import Iterator

import numpy as np

from spark_jobs.kernels.log_bytes import marker_batches, place_batches
from spark_jobs.materialising.decoding import Decoder, Reading
from spark_jobs.materialising.rows import BatchRows
from spark_jobs.protocol.topic_partition import TopicPartition
from spark_jobs.storage.direct_file import DirectFile
from spark_jobs.storage.errors import BrokenRun
from spark_jobs.storage.file_errors import translated
from spark_jobs.storage.object_store import ObjectStore
from spark_jobs.storage.planned_segments import PlannedSegment, segment_path
from spark_jobs.storage.run_folder import OutputFile
from spark_jobs.storage.scratch_file import ScratchFile


class SegmentFile(ScratchFile):
    """The `.log` file of `segment`; nothing is visible in the lake before `finish`."""

    def __init__(self, lake: ObjectStore, partition: TopicPartition, segment: PlannedSegment) -> None:
        super().__init__(lake, ".log")
        self._segment, self._key = segment, segment_path(partition, segment)
        with translated(str(self._path)):
            self._file = DirectFile(self._path, cached=self._is_read_again)

    def append(self, rows: BatchRows, reading: Reading | None) -> None:
        """The next batches: those of `reading`, and between them markers, which are in no object."""
        ends, is_marker = np.cumsum(rows.headers.size), rows.is_given_marker
        at, target = ends - rows.headers.size, self._file.room(int(ends[-1]))
        if reading is not None:
            buffer, found = reading.joined()
            place_batches(target, at[~is_marker], buffer, found.headers, self._segment.leader_epoch)
        if is_marker.any():
            markers = rows.take(is_marker).headers
            made = markers._replace(position=np.cumsum(markers.size) - markers.size)
            source = marker_batches(markers._asdict())
            place_batches(target, at[is_marker], source, made, self._segment.leader_epoch)
        with translated(str(self._path)):
            self._file.push()

    def finish(self, folder: str) -> OutputFile:
        """Put the segment below the key `folder`."""
        self._close()
        if self._file.size != self._segment.size:
            raise BrokenRun(f"{self._key}: expected {self._segment.size} bytes, found {self._file.size}")
        self._store.adopt(self._path, f"{folder}/{self._key}", lasting=False)
        return OutputFile(path=self._key, size=self._file.size, digest=self._segment.digest)

    def _close(self) -> None:
        with translated(str(self._path)):
            self._file.close()


def logged(decoder: Decoder, segment: SegmentFile, rows: BatchRows) -> Iterator[Reading]:
    """The bytes of `rows`, which are all accepted, once they are in the segment."""
    data = np.flatnonzero(~rows.is_given_marker)
    done = 0
    for reading in map(decoder.check, decoder.readings(rows.take(data))):
        stop = int(data[reading.stop]) if reading.stop < data.size else rows.rows
        segment.append(rows.take(slice(done, stop)), reading)
        yield reading
        done = stop
    if done < rows.rows:
        segment.append(rows.take(slice(done, rows.rows)), None)
