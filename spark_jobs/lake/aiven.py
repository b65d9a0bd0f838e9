"""Segments and indexes as Aiven's tiered storage plugin stores them, decoded (facts §1.15).

A segment is divided into chunks. Each chunk is compressed first, then encrypted, as its manifest says. The
indexes of a segment are together in one object; here each has a path of its own,
`<start offset>-<segment id>.indexes/<part>`.
"""

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from spark_jobs.extras import Extra, require
from spark_jobs.kafka.errors import BadCompression, CorruptManifest, LimitExceeded
from spark_jobs.kafka.formats.aiven_manifest import (
    IV_BYTES,
    Chunk,
    Encryption,
    IndexRange,
    SegmentManifest,
    read_segment_manifest,
)
from spark_jobs.kafka.formats.codecs.zstd import decompress
from spark_jobs.kafka.formats.limits import OutputLimit
from spark_jobs.kafka.formats.tier_files import INDEXES, LEADER_EPOCHS, LOG, MANIFEST, SNAPSHOT, TXN_INDEX
from spark_jobs.lake.errors import KeyUnfit, ObjectDamaged
from spark_jobs.lake.object_store import ObjectStore

INDEX_PARTS: Mapping[str, Callable[[SegmentManifest], IndexRange]] = {
    SNAPSHOT: lambda manifest: manifest.snapshot,
    LEADER_EPOCHS: lambda manifest: manifest.leader_epochs,
    TXN_INDEX: lambda manifest: manifest.txn_index,
}


def index_path(stem: str, part: str) -> str:
    """The path of one index of an upload."""
    return f"{stem}.{INDEXES}/{part}"


def stem_of(path: str) -> str:
    """What the paths of an upload's objects have in common."""
    return path.removesuffix(f".{LOG}").partition(f".{INDEXES}/")[0]


@dataclass(frozen=True)
class AivenObjects:
    """The decoded objects below a store's root; `keys` are references to private keys by their ids."""

    store: ObjectStore
    keys: Mapping[str, str] = field(repr=False)

    def manifest(self, stem: str) -> SegmentManifest:
        """The manifest of an upload; `ObjectDamaged` if it cannot be read."""
        key = f"{stem}.{MANIFEST}"
        try:
            return read_segment_manifest(self.store.read(key), source=self.store.url_of(key))
        except CorruptManifest as error:
            raise ObjectDamaged(str(error)) from error

    def size_of(self, path: str, manifest: SegmentManifest) -> int:
        """Bytes of the decoded object."""
        part = path.partition(f".{INDEXES}/")[2]
        return manifest.original_size_of(INDEX_PARTS[part](manifest)) if part else manifest.original_size

    def chunks(self, key: str, *, version: str = "") -> Iterator[bytes]:
        """The decoded object chunk by chunk; `ObjectDamaged` at the first that cannot be decoded."""
        manifest, (stem, _, part) = self.manifest(stem_of(key)), key.partition(f".{INDEXES}/")
        opener = _Opener(manifest, self.keys, self.store.url_of(stem))
        if part:
            yield from self._index(f"{stem}.{INDEXES}", INDEX_PARTS[part](manifest), opener, version)
            return
        for chunk in manifest.chunks:
            stored = self._stored(key, chunk.position, chunk.size, version, _place(manifest, chunk))
            yield opener.chunk(stored, chunk)

    def _index(self, key: str, index: IndexRange, opener: "_Opener", version: str) -> Iterator[bytes]:
        if index.size:
            place = f"the index at byte {index.position}"
            yield opener.decrypted(self._stored(key, index.position, index.size, version, place), place)

    def _stored(self, key: str, position: int, size: int, version: str, place: str) -> bytes:
        stored = self.store.read_range(key, position, size, version=version)
        if len(stored) != size:
            raise ObjectDamaged(
                f"{self.store.url_of(key)}: {place}: expected {size} bytes at {position}, found {len(stored)}"
            )
        return stored

    def checksum(self, key: str, *, version: str = "") -> str:
        """None: the store keeps one of the encoded bytes."""
        del key, version
        return ""

    def read_range(self, key: str, start: int, length: int, *, version: str = "") -> bytes:
        """Part of the decoded object; of a segment, the chunks that have it are read."""
        if f".{INDEXES}/" in key:
            return b"".join(self.chunks(key, version=version))[start : start + length]
        return self.segment_range(key, self.manifest(stem_of(key)), start, length, version=version)

    def segment_range(
        self, key: str, manifest: SegmentManifest, start: int, length: int, *, version: str = ""
    ) -> bytes:
        """Part of a segment whose manifest is known; its chunks are fetched with one request."""
        opener, before, found = _Opener(manifest, self.keys, self.store.url_of(key)), 0, []
        for chunk in manifest.chunks:
            if before < start + length and before + chunk.original_size > start:
                found.append((before, chunk))
            before += chunk.original_size
        if not found:
            return b""
        (skipped, first), (_, last) = found[0], found[-1]
        size = last.position + last.size - first.position
        place = f"chunks {first.number + 1} to {last.number + 1} of {len(manifest.chunks)}"
        stored = memoryview(self._stored(key, first.position, size, version, place))
        parts = (
            opener.chunk(bytes(stored[chunk.position - first.position :][: chunk.size]), chunk)
            for _, chunk in found
        )
        return b"".join(parts)[start - skipped :][:length]


def _place(manifest: SegmentManifest, chunk: Chunk) -> str:
    return f"chunk {chunk.number + 1} of {len(manifest.chunks)}"


@dataclass(frozen=True)
class _Opener:
    """Decodes the chunks of one upload."""

    manifest: SegmentManifest
    keys: Mapping[str, str]
    url: str

    @cached_property
    def _data_key(self) -> bytes:
        encryption = self.manifest.encryption
        return b"" if encryption is None else open_data_key(encryption, self.keys, self.url)

    def chunk(self, stored: bytes, chunk: Chunk) -> bytes:
        """The bytes of a chunk."""
        place = f"{_place(self.manifest, chunk)}, {chunk.size} bytes at {chunk.position}"
        data, original_size = self.decrypted(stored, place), chunk.original_size
        if self.manifest.is_compressed:
            data = self._decompressed(data, original_size, place)
        if len(data) != original_size:
            raise ObjectDamaged(
                f"{self.url}: {place}: expected {original_size} bytes after decoding, found {len(data)}"
            )
        return data

    def decrypted(self, stored: bytes, place: str) -> bytes:
        """The bytes of a chunk or an index before they were encrypted."""
        encryption = self.manifest.encryption
        if encryption is None:
            return stored
        from cryptography.exceptions import InvalidTag  # noqa: PLC0415 — only for encrypted objects
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # noqa: PLC0415

        try:
            cipher = AESGCM(self._data_key)
            return cipher.decrypt(stored[:IV_BYTES], stored[IV_BYTES:], encryption.aad)
        except (InvalidTag, ValueError) as error:
            raise ObjectDamaged(
                f"{self.url}: {place}: its AES-GCM tag does not match: the object or its manifest is damaged"
            ) from error

    def _decompressed(self, data: bytes, original_size: int, place: str) -> bytes:
        try:
            return decompress(memoryview(data), OutputLimit(limit=original_size, source=self.url, position=0))
        except (BadCompression, LimitExceeded) as error:
            raise ObjectDamaged(f"{self.url}: {place}: {error}") from error


def open_data_key(encryption: Encryption, keys: Mapping[str, str], url: str) -> bytes:
    """The AES key of an upload; `KeyUnfit` without the private key that opens it."""
    reference = keys.get(encryption.key_id)
    if reference is None:
        known = ", ".join(sorted(keys)) or "none"
        raise KeyUnfit(
            f"{url}: encrypted with the key '{encryption.key_id}', configured are: {known}. Set "
            f"encryption_keys: {{{encryption.key_id}: file:PATH}} of the source"
        )
    require(Extra.TIERED, f"{url}: encrypted; decrypting its data key")
    from Crypto.Cipher import PKCS1_OAEP  # noqa: PLC0415 — an extra
    from Crypto.Hash import SHA3_512  # noqa: PLC0415
    from Crypto.PublicKey import RSA  # noqa: PLC0415

    try:
        key = RSA.import_key(_key_text(encryption.key_id, reference))
    except (ValueError, IndexError, TypeError):
        raise KeyUnfit(
            f"encryption key '{encryption.key_id}': {reference} is no RSA private key in PEM format"
        ) from None
    if not key.has_private():
        raise KeyUnfit(f"encryption key '{encryption.key_id}': {reference} is a public key")
    try:
        data_key: bytes = PKCS1_OAEP.new(key, hashAlgo=SHA3_512).decrypt(encryption.data_key)
    except (ValueError, TypeError):
        raise KeyUnfit(
            f"{url}: {reference} does not open the data key that '{encryption.key_id}' encrypted: it is "
            "another key, or the manifest is damaged"
        ) from None
    return data_key


def _key_text(key_id: str, reference: str) -> str:
    """The content of a key file or variable; messages name the reference, never the content."""
    how, _, where = reference.partition(":")
    if how == "env":
        text = os.environ.get(where, "")
        if not text:
            raise KeyUnfit(f"encryption key '{key_id}': the environment variable {where} is not set")
        return text
    try:
        return Path(where).read_text(encoding="ascii", errors="replace")
    except OSError as error:
        raise KeyUnfit(f"encryption key '{key_id}': {where} cannot be read: {error.strerror}") from None
