"""A file that knows the digest of what was written to it, so that nobody has to read it again."""

import hashlib
import io
from pathlib import Path

from typing_extensions import Buffer


class HashedFile(io.RawIOBase):
    """A new file at `path`, written from its beginning to its end."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("wb", buffering=0)
        self._sha256, self.size = hashlib.sha256(), 0

    @property
    def sha256(self) -> str:
        """Of everything so far."""
        return self._sha256.hexdigest()

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self.size

    def write(self, data: Buffer) -> int:
        """All of `data`; a disk takes less at once where it runs full, or of more than 2 GiB."""
        view = memoryview(data).cast("B")
        written = 0
        while written < len(view):
            written += self._file.write(view[written:])
        self._sha256.update(view)
        self.size += written
        return written

    def close(self) -> None:
        """Closing twice is no fault."""
        self._file.close()
        super().close()
