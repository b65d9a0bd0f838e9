"""A file in the making: it grows in a scratch place, and comes into the store whole or not at all."""

from abc import abstractmethod
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Generic, Protocol, TypeVar

from spark_jobs.storage.file_errors import translated
from spark_jobs.storage.object_store import ObjectStore
from spark_jobs.storage.run_folder import OutputFile
from spark_jobs.storage.scratch_file import ScratchFile


class Writer(Protocol):
    """Writes a file in some format."""

    def close(self) -> None:
        """Write the rest."""


class WrittenFile(Protocol):
    """What a writer writes to."""

    @property
    def size(self) -> int:
        """Bytes so far."""

    @property
    def sha256(self) -> str:
        """Of these."""

    def close(self) -> None:
        """No more will come."""


AnyWriter = TypeVar("AnyWriter", bound=Writer)


class GrowingFile(ScratchFile, Generic[AnyWriter]):
    """Nothing is visible in the store before `finish`. Use as a context manager."""

    def __init__(self, store: ObjectStore) -> None:
        super().__init__(store, ".parquet")
        self._output: tuple[WrittenFile, AnyWriter] | None = None

    @property
    def size(self) -> int:
        """Bytes written so far, except for what the writer still holds back."""
        return self._output[0].size if self._output is not None else 0

    @property
    def grown(self) -> int:
        """The same, and what the writer holds back, where it says so."""
        return self.size

    def forget(self) -> None:
        """Drop everything that was written so far."""
        if self._output is not None:
            (file, writer), self._output = self._output, None
            with translated(str(self._path)), closing(file):
                writer.close()

    def finish(self, folder: str, path: str) -> OutputFile:
        """Put the file at `path` below the key `folder`; one without rows is a file too."""
        with self._opened() as (file, _):
            pass
        self.forget()
        self._store.adopt(self._path, f"{folder}/{path}", lasting=False)
        return OutputFile(path=path, size=file.size, digest=file.sha256)

    def _close(self) -> None:
        self.forget()

    @contextmanager
    def _opened(self) -> Iterator[tuple[WrittenFile, AnyWriter]]:
        """The file and its writer, for as long as it takes to write something."""
        with translated(str(self._path)):
            if self._output is None:
                self._output = self._begin()
            yield self._output

    @abstractmethod
    def _begin(self) -> tuple[WrittenFile, AnyWriter]:
        """A new file at `_path`, and its writer."""
