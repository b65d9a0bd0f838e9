"""A log directory as a broker has it while it runs, and what a copy of it holds."""

import os
from pathlib import Path

from spark_jobs.kafka.formats.checkpoints import OffsetCheckpointEntry, write_offsets
from spark_jobs.kafka.formats.log_files import CLEANER_OFFSET_CHECKPOINT
from spark_jobs.lake.object_store import ObjectStore
from spark_jobs.operations.copy import RECORD, CopyCounts, CopyRequest, Watch, copy_directory
from spark_jobs.operations.copy_snapshot import CopyPart
from spark_jobs.sources.broker_files import COPY_TIMES

OWNER = "cluster.id=abc\nnode.id=1\ndirectory.id=d1\n"
FIRST, SECOND, ACTIVE = (f"{offset:020d}.log" for offset in (0, 100, 200))


class BrokerDirectory:
    """`orders-0` with two closed segments and an active one, the coordinators' logs, checkpoints."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.write("meta.properties", OWNER.encode())
        self.write("log-start-offset-checkpoint", b"0\n0\n")
        for partition in ("orders-0", "__transaction_state-0", "__consumer_offsets-0"):
            for name in (FIRST, SECOND, ACTIVE):
                self.write(f"{partition}/{name}", f"{partition} {name} ".encode() * 50)
            self.write(f"{partition}/leader-epoch-checkpoint", b"0\n1\n0 0\n")
            self.write(f"{partition}/partition.metadata", b"version: 0\ntopic_id: one\n")
            self.write(f"{partition}/{200:020d}.snapshot", b"snapshot")
        self.write(f"orders-0/{200:020d}.index", b"\0" * 1000)
        self.write(f"orders-0/{0:020d}.log.deleted", b"gone")
        self.write("gone-0.0123-delete/00000000000000000000.log", b"gone")
        self.write("__cluster_metadata-0/00000000000000000000.log", b"not copied")

    def write(self, key: str, data: bytes) -> None:
        path = self.root / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)

    def append(self, key: str, data: bytes) -> None:
        with (self.root / key).open("ab") as file:
            file.write(data)

    def compact(self, key: str, data: bytes) -> None:
        """Replaces a segment as the log cleaner does: another file, the same modification time."""
        path, cleaned = self.root / key, self.root / f"{key}.cleaned"
        cleaned.write_bytes(data)
        stat = path.stat()
        os.utime(cleaned, ns=(stat.st_mtime_ns, stat.st_mtime_ns))
        cleaned.replace(path)
        entry = OffsetCheckpointEntry(topic=key.split("-", maxsplit=1)[0], partition=0, offset=100)
        (self.root / CLEANER_OFFSET_CHECKPOINT).write_bytes(write_offsets([entry]))

    def wanted(self) -> dict[str, bytes]:
        """What a copy of it has to hold now."""
        return {
            str(path.relative_to(self.root)): path.read_bytes()
            for path in sorted(self.root.rglob("*"))
            if path.is_file()
            and path.suffix not in {".index", ".deleted"}
            and path.parent.name not in {"gone-0.0123-delete", "__cluster_metadata-0"}
        }


def copied(store: ObjectStore) -> dict[str, bytes]:
    """What is at the destination, without the two files that a copy writes itself."""
    return {each.key: store.read(each.key) for each in store.list() if each.key not in {COPY_TIMES, RECORD}}


def do_copy(
    root: Path,
    store: ObjectStore,
    *,
    parts: tuple[CopyPart, ...] = tuple(CopyPart),
    is_linked: bool = True,
    watch: Watch = lambda _key, _size: None,
    remarks: list[str] | None = None,
) -> CopyCounts:
    request = CopyRequest(log_directory=root, store=store, parts=parts, is_linked=is_linked)
    return copy_directory(request, remark=(remarks if remarks is not None else []).append, watch=watch)
