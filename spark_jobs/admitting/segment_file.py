"""One file of the accepted log in the making."""

import hashlib
import mmap
import secrets
from types import TracebackType
from typing import Self

from spark_jobs.protocol.log_files import LogFileKind, segment_file_name
from spark_jobs.protocol.record_batch import LOG_OVERHEAD
from spark_jobs.storage.file_errors import translated
from spark_jobs.storage.object_store import ObjectStore
from spark_jobs.storage.run_folder import OutputFile


class SegmentFile:
    """A `.log` file from `base_offset` on; nothing is visible in the lake before `finish`."""

    def __init__(self, lake: ObjectStore, base_offset: int) -> None:
        self._lake, self.base_offset, self.size = lake, base_offset, 0
        self._path = lake.scratch() / f"{secrets.token_hex(8)}.log"
        self._file = self._path.open("w+b")
        self._sha256 = hashlib.sha256()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._close()
        finally:  # where there is no space, closing fails once more
            self._path.unlink(missing_ok=True)

    def append(self, data: bytes | memoryview) -> None:
        """Whole batches, as they stand in the log."""
        with translated(str(self._path)):
            self._file.write(data)
        self._sha256.update(data)
        self.size += len(data)

    @property
    def sha256(self) -> str:
        """Of what has been appended."""
        return self._sha256.hexdigest()

    def restamp(self, leader_epoch: int) -> None:
        """Every batch is another leader's; the epoch is covered by no checksum (facts §1.3)."""
        stamp, position = leader_epoch.to_bytes(4, signed=True), 0
        self._file.flush()
        with mmap.mmap(self._file.fileno(), self.size) as data:
            while position < self.size:
                data[position + 12 : position + 16] = stamp
                position += LOG_OVERHEAD + int.from_bytes(data[position + 8 : position + 12])
            self._sha256 = hashlib.sha256(data)

    def finish(self, folder: str, directory: str) -> OutputFile:
        """Put the segment into the partition's `directory` below the key `folder`."""
        self._close()
        path = f"{directory}/{segment_file_name(self.base_offset, LogFileKind.LOG)}"
        self._lake.adopt(self._path, f"{folder}/{path}", lasting=False)
        return OutputFile(path=path, size=self.size, sha256=self._sha256.hexdigest())

    def _close(self) -> None:
        with translated(str(self._path)):
            self._file.close()
