"""Digests of whole objects as text: SHA-256 in hexadecimal, others as `algorithm:hexadecimal`."""

import hashlib
from typing import Protocol

from spark_jobs.kafka.formats.header_digest import HeaderDigest

SHA256, MD5, CRC64NVME = "sha256", "md5", "crc64nvme"
HEADERS = "headers"
"""Of the headers of batches, which have the checksums of their batches (`kafka.formats.header_digest`)."""


class Hasher(Protocol):
    """A digest of bytes that are added in pieces."""

    def update(self, data: bytes, /) -> None:
        """Adds `data`."""

    def hexdigest(self) -> str:
        """The digest of all bytes so far."""

    def copy(self) -> "Hasher":
        """An independent hasher with the same bytes so far."""


def new_hasher(algorithm: str) -> Hasher:
    """A digest of no bytes yet."""
    if algorithm == HEADERS:
        return HeaderDigest()
    if algorithm == CRC64NVME:
        from spark_jobs.kernels.crc import Crc64Nvme  # noqa: PLC0415 - numba, and hardly ever needed

        return Crc64Nvme()
    return hashlib.new(algorithm, usedforsecurity=False)


def labelled(algorithm: str, hexdigest: str) -> str:
    """The digest as text, with its algorithm unless it is SHA-256."""
    return hexdigest if algorithm == SHA256 else f"{algorithm}:{hexdigest}"


def algorithm_of(digest: str) -> str:
    """The algorithm of a digest as text."""
    return digest.partition(":")[0] if ":" in digest else SHA256
