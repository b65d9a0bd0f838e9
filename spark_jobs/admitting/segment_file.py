"""One file of the accepted log in the making."""

import hashlib
import secrets
from types import TracebackType
from typing import Self

from spark_jobs.protocol.log_files import LogFileKind, segment_file_name
from spark_jobs.storage.file_errors import translated
from spark_jobs.storage.object_store import ObjectStore
from spark_jobs.storage.run_folder import OutputFile


class SegmentFile:
    """A `.log` file from `base_offset` on; nothing is visible in the lake before `finish`."""

    def __init__(self, lake: ObjectStore, base_offset: int) -> None:
        self._lake, self.base_offset, self.size = lake, base_offset, 0
        self._path = lake.scratch() / f"{secrets.token_hex(8)}.log"
        self._file = self._path.open("wb")
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

    def finish(self, folder: str, directory: str) -> OutputFile:
        """Put the segment into the partition's `directory` below the key `folder`."""
        self._close()
        path = f"{directory}/{segment_file_name(self.base_offset, LogFileKind.LOG)}"
        self._lake.adopt(self._path, f"{folder}/{path}", lasting=False)
        return OutputFile(path=path, size=self.size, sha256=self._sha256.hexdigest())

    def _close(self) -> None:
        with translated(str(self._path)):
            self._file.close()
