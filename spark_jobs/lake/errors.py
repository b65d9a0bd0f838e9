"""Errors of stored data, transient or permanent, and the checks that report a damaged file of the lake."""

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import ClassVar

from spark_jobs.kafka.errors import OnceoverError


class StorageError(OnceoverError):
    """A store refused or failed; the message names the object and what to do."""


class ObjectMissing(StorageError):
    """There is no object of this name, or it was deleted."""


class ObjectChanged(StorageError):
    """The object was replaced since it was listed."""


class ObjectDamaged(StorageError):
    """The object's bytes cannot be decoded as its writer wrote them."""


class KeyUnfit(StorageError):
    """A decryption key is missing, unreadable or another one: a person has to act."""


class UnsafeKey(StorageError):
    """A name that could leave its root, or that no store can hold."""


class StoreDenied(StorageError):
    """Credentials or permissions are missing: a person has to act."""


class StoreFull(StorageError):
    """No space left: a person has to act."""


class StoreUnavailable(StorageError):
    """The store did not answer properly, even after retries."""

    transient: ClassVar[bool] = True


class LakeBusy(StorageError):
    """Another process holds the lock of the lake."""

    transient: ClassVar[bool] = True


class LockLost(StorageError):
    """The lease of this process expired and another one has taken the lock."""

    transient: ClassVar[bool] = True


class ChainConflict(StorageError):
    """Another run became final first; this one started from a state that is no longer the head."""

    transient: ClassVar[bool] = True


class OutOfTurn(StorageError):
    """The run date is before those of final runs."""


class TopicRecreated(StorageError):
    """A topic was deleted and recreated, and its logs must not be merged: a person has to act."""


class OtherCluster(StorageError):
    """A source has a copy of a different cluster than before: a person has to act."""


class BrokenChain(StorageError):
    """The chain of final runs has a hole or an entry that does not follow from the one before."""


class BrokenRun(StorageError):
    """A run folder does not match its own records."""


class BrokenState(StorageError):
    """A state file that does not match its digest, or of an unknown version."""


class Damaged(StorageError):
    """A file that Onceover wrote to the lake was changed or cut short: a person has to act."""


class LakeMoved(StorageError):
    """A lake that was copied or moved from the location where it was created: it may only be read."""


class CatalogUnfit(StorageError):
    """The catalog that the settings name cannot serve this lake: a person has to act."""


class CatalogDiffers(StorageError):
    """The catalog's tables lack what the chain lists as published: a person has to act."""


class PublishFailed(StorageError):
    """The catalog rejected a commit, or did not confirm it."""

    transient: ClassVar[bool] = True


class PublishedDiffers(StorageError):
    """A table read back is not what was published."""


RESTORE = "restore it from a copy of the lake"
_SEAL = b'{"sealed":"'


@contextmanager
def understood(source: str, remedy: str = RESTORE) -> Iterator[None]:
    """Raises `Damaged` for an error while the bytes of `source` are parsed."""
    try:
        yield
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise Damaged(f"{source}: damaged, it cannot be read ({_short(error)}); {remedy}") from error


def sealed(lines: bytes) -> bytes:
    """JSON lines with a last one that holds their SHA-256."""
    return lines + _SEAL + hashlib.sha256(lines).hexdigest().encode() + b'"}\n'


def unsealed(data: bytes, *, source: str, remedy: str = RESTORE) -> bytes:
    """The lines before the seal, verified; files of earlier versions have no seal."""
    start = data.rfind(_SEAL)
    if start < 0:
        return data
    if sealed(data[:start]) != data:
        raise Damaged(
            f"{source}: damaged, the SHA-256 of its lines differs from the one in its last line; {remedy}"
        )
    return data[:start]


def _short(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"[:120]
