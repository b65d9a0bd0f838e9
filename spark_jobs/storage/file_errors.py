"""What the operating system's errors mean for a store."""

import errno
from collections.abc import Iterator
from contextlib import contextmanager

from spark_jobs.storage.errors import (
    ObjectMissing,
    StorageError,
    StoreDenied,
    StoreFull,
    StoreUnavailable,
    UnsafeKey,
)
from spark_jobs.storage.keys import printable

ERRORS: dict[int | None, tuple[type[StorageError], str]] = {
    errno.ENOENT: (ObjectMissing, "there is no such file"),
    errno.ENOTDIR: (ObjectMissing, "there is no such file"),
    errno.EACCES: (StoreDenied, "permission denied: give this user access"),
    errno.EPERM: (StoreDenied, "permission denied: give this user access"),
    errno.EROFS: (StoreDenied, "the file system is read-only"),
    errno.ENOSPC: (StoreFull, "no space left on the device: free some and run again"),
    errno.EDQUOT: (StoreFull, "the disk quota is used up: free some and run again"),
    errno.EFBIG: (StoreFull, "the file is larger than this system allows: raise the limit and run again"),
    errno.ENAMETOOLONG: (UnsafeKey, "the name is too long for this file system"),
    errno.ELOOP: (UnsafeKey, "a symbolic link, expected a file"),
    errno.EIO: (StoreUnavailable, "the device failed to answer"),
    errno.ESTALE: (StoreUnavailable, "the network file system lost the file handle"),
    errno.ETIMEDOUT: (StoreUnavailable, "the file system did not answer in time"),
}


@contextmanager
def translated(where: str) -> Iterator[None]:
    """Raises the store's own errors instead of the operating system's, naming `where`."""
    try:
        yield
    except OSError as error:
        kind, advice = ERRORS.get(error.errno, (StorageError, str(error)))
        raise kind(f"{printable(where)}: {advice}") from error
