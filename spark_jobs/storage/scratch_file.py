"""A file in a scratch place on its way into a store: whatever is left of it there is removed."""

import secrets
from abc import ABC, abstractmethod
from types import TracebackType
from typing import Self

from spark_jobs.storage.object_store import ObjectStore


class ScratchFile(ABC):
    """Its place is `_path`, in which nobody else writes. Use as a context manager."""

    def __init__(self, store: ObjectStore, suffix: str) -> None:
        self._store = store
        self._path = store.scratch() / f"{secrets.token_hex(8)}{suffix}"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._close()
        finally:  # where there is no space, closing fails once more
            self._path.unlink(missing_ok=True)

    @property
    def _is_read_again(self) -> bool:
        """Whether the store takes its bytes, to upload them, and not the file itself."""
        return self._store.local_path(self._path.name) is None

    @abstractmethod
    def _close(self) -> None:
        """Close it; closing twice is no fault."""
