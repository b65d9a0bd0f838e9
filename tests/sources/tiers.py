"""Tiers for tests: closed segments of a broker's log directory as each plugin would have uploaded them."""

import base64
import hashlib
import json
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from struct import Struct
from typing import Any

import cramjam
from Crypto.Cipher import PKCS1_OAEP
from Crypto.Hash import SHA3_512
from Crypto.PublicKey import RSA
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from spark_jobs.kafka.formats.checkpoints import (
    read_leader_epochs,
    read_partition_metadata,
    write_leader_epochs,
)
from spark_jobs.kafka.formats.log_files import LEADER_EPOCH_CHECKPOINT, PARTITION_METADATA, parse_file_name
from spark_jobs.kafka.formats.snapshot import write_snapshot

INDEX_ENTRY = Struct(">ii")
CHUNK_BYTES = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Upload:
    """A closed segment with what a broker uploads beside it; `end` is the next segment's base offset."""

    topic: str
    partition: int
    topic_id: str
    start: int
    end: int
    log: bytes
    snapshot: bytes
    epochs: bytes
    txn_index: bytes | None = None

    def segment_id(self, attempt: int = 0) -> str:
        """Another one for each attempt to upload the segment."""
        name = f"{self.topic}-{self.partition}-{self.start}-{attempt}"
        return uuid_of(name)


def private_key() -> Any:
    """A new RSA key, made by OpenSSL: the library that reads it would take seconds."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    text = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return RSA.import_key(text)


def uuid_of(name: str) -> str:
    """A UUID in Kafka's spelling."""
    return base64.urlsafe_b64encode(hashlib.sha256(name.encode()).digest()[:16]).decode().rstrip("=")


def partitions_of(data: Path) -> list[Path]:
    """The directories of user's partitions."""
    found = (path for path in data.iterdir() if path.is_dir() and not path.name.startswith("__"))
    return sorted(found)


def uploads_of(directory: Path) -> list[Upload]:
    """The closed segments of a partition, as far as transactions are concerned all of them decided."""
    topic, _, partition = directory.name.rpartition("-")
    bases = sorted(int(path.stem) for path in directory.glob("*.log"))
    metadata = read_partition_metadata((directory / PARTITION_METADATA).read_bytes())
    epochs = read_leader_epochs((directory / LEADER_EPOCH_CHECKPOINT).read_bytes())
    found = []
    for start, end in pairwise(bases):
        snapshot = directory / f"{end:020d}.snapshot"
        txn_index = directory / f"{start:020d}.txnindex"
        found.append(
            Upload(
                topic=topic,
                partition=int(partition),
                topic_id=metadata.topic_id,
                start=start,
                end=end,
                log=(directory / f"{start:020d}.log").read_bytes(),
                snapshot=snapshot.read_bytes() if snapshot.exists() else write_snapshot(()),
                epochs=write_leader_epochs(entry for entry in epochs if entry.start_offset < end),
                txn_index=txn_index.read_bytes() if txn_index.exists() else None,
            )
        )
    return found


def write_tail(directory: Path, to: Path, start: int) -> None:
    """What local retention leaves of a partition whose segments below `start` are in the tier."""
    to.mkdir(parents=True)
    for path in directory.iterdir():
        file = parse_file_name(path.name)
        if file is None or file.offset >= start:
            shutil.copy2(path, to)


def write_local(tier: Path, upload: Upload, *, attempt: int = 0) -> Path:
    """As LocalTieredStorage; returns the path of the `.log` file."""
    folder = tier / f"{upload.topic}-{upload.partition}-{upload.topic_id}"
    folder.mkdir(parents=True, exist_ok=True)
    stem = f"{upload.start:020d}-{upload.segment_id(attempt)}"
    parts = {
        "log": upload.log,
        "index": b"",
        "timeindex": b"",
        "txnindex": upload.txn_index,
        "leader_epoch_checkpoint": upload.epochs,
        "snapshot": upload.snapshot,
    }
    for part, data in parts.items():
        if data is not None:
            (folder / f"{stem}.{part}").write_bytes(data)
    return folder / f"{stem}.log"


def write_pinterest(tier: Path, upload: Upload) -> Path:
    """As Pinterest's uploader, below entropy bits and a cluster's name."""
    folder = tier / "0110" / "cluster" / f"{upload.topic}-{upload.partition}"
    folder.mkdir(parents=True, exist_ok=True)
    for part, data in {"log": upload.log, "index": b"", "timeindex": b""}.items():
        (folder / f"{upload.start:020d}.{part}").write_bytes(data)
    (folder / "offset.wm").write_text(str(upload.start))
    return folder / f"{upload.start:020d}.log"


@dataclass(frozen=True, slots=True, kw_only=True)
class Aiven:
    """How Aiven's plugin is configured; `public_key` encrypts data keys. `key_prefix` is before every key."""

    is_compressed: bool = False
    key_id: str = "key-1"
    key_prefix: str = ""
    public_key: Any = None
    chunk_bytes: int = CHUNK_BYTES
    data_key: bytes = field(default=bytes(range(32)))
    aad: bytes = field(default=bytes(range(32, 64)))

    def write(self, tier: Path, upload: Upload, *, attempt: int = 0) -> Path:
        """The three objects of an upload; returns the path of `.log`."""
        folder = tier / f"{self.key_prefix}{upload.topic}-{upload.topic_id}" / str(upload.partition)
        folder.mkdir(parents=True, exist_ok=True)
        stem = f"{upload.start:020d}-{upload.segment_id(attempt)}"
        whole = range(0, len(upload.log), self.chunk_bytes)
        chunks = [self._encoded(upload.log[start : start + self.chunk_bytes], start) for start in whole]
        (folder / f"{stem}.log").write_bytes(b"".join(chunks))
        indexes, places = self._indexes(upload)
        (folder / f"{stem}.indexes").write_bytes(indexes)
        manifest = self.manifest(upload, [len(chunk) for chunk in chunks], places, attempt)
        (folder / f"{stem}.rsm-manifest").write_text(json.dumps(manifest))
        return folder / f"{stem}.log"

    def _encoded(self, data: bytes, nonce: int) -> bytes:
        packed = bytes(cramjam.zstd.compress(data)) if self.is_compressed else data
        return self._sealed(packed, nonce)

    def _sealed(self, data: bytes, nonce: int) -> bytes:
        if self.public_key is None:
            return data
        iv = nonce.to_bytes(12, "big")
        return iv + AESGCM(self.data_key).encrypt(iv, data, self.aad)

    def _indexes(self, upload: Upload) -> tuple[bytes, dict[str, Any]]:
        parts = {
            "offset": b"",
            "timestamp": b"",
            "producerSnapshot": upload.snapshot,
            "leaderEpoch": upload.epochs,
            "transaction": upload.txn_index,
        }
        whole, places = b"", {}
        for number, (name, data) in enumerate(parts.items()):
            sealed = self._sealed(data, 2**40 + number) if data else b""
            is_null = data is None
            places[name] = None if is_null else {"position": len(whole), "size": len(sealed)}
            whole += sealed
        return whole, places

    def manifest(
        self, upload: Upload, sizes: Sequence[int], places: dict[str, Any], attempt: int
    ) -> dict[str, Any]:
        index: dict[str, Any] = {
            "type": "variable" if self.is_compressed else "fixed",
            "originalChunkSize": self.chunk_bytes,
            "originalFileSize": len(upload.log),
        }
        if self.is_compressed:
            packed = bytes(cramjam.zstd.compress(pack_sizes(sizes)))
            index["transformedChunks"] = base64.b64encode(packed).decode()
        else:
            index["transformedChunkSize"], index["finalTransformedChunkSize"] = sizes[0], sizes[-1]
        found = {
            "version": "1",
            "chunkIndex": index,
            "segmentIndexes": places,
            "compression": self.is_compressed,
            "remoteLogSegmentMetadata": _metadata(upload, attempt),
        }
        if self.public_key is not None:
            found["encryption"] = {
                "dataKey": f"{self.key_id}:{base64.b64encode(self._wrapped_key()).decode()}",
                "aad": base64.b64encode(self.aad).decode(),
            }
        return found

    def _wrapped_key(self) -> bytes:
        wrapped: bytes = PKCS1_OAEP.new(self.public_key, hashAlgo=SHA3_512).encrypt(self.data_key)
        return wrapped


def _metadata(upload: Upload, attempt: int) -> dict[str, Any]:
    place = {"topic": upload.topic, "partition": upload.partition}
    return {
        "remoteLogSegmentId": {
            "topicIdPartition": {"topicId": upload.topic_id, "topicPartition": place},
            "id": upload.segment_id(attempt),
        },
        "startOffset": upload.start,
        "endOffset": upload.end - 1,
        "maxTimestampMs": 0,
        "brokerId": 1,
        "eventTimestampMs": 0,
        "segmentLeaderEpochs": {"0": upload.start},
    }


def pack_sizes(sizes: Sequence[int]) -> bytes:
    """The list of chunk sizes as its codec packs it."""
    if len(sizes) < 2:
        return b"".join(number.to_bytes(4, "big") for number in (len(sizes), *sizes))
    base = min(sizes[:-1])
    width = max(1, *(-(-(size - base).bit_length() // 8) for size in sizes[:-1]))
    packed = b"".join((size - base).to_bytes(width, "big") for size in sizes[:-1])
    return Struct(">iiB").pack(len(sizes), base, width) + packed + sizes[-1].to_bytes(4, "big")
