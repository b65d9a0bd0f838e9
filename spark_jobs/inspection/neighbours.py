"""The files beside a partition's segments: snapshots, transaction indexes, leader epochs, leftovers."""

from collections.abc import Iterator
from pathlib import Path

from spark_jobs.inspection.partition import PartitionLog, log_files
from spark_jobs.inspection.report import Cell, Remark, Table, error, note, plural, warning
from spark_jobs.inspection.small_files import values_table
from spark_jobs.protocol.checkpoint import EpochEntry, read_leader_epochs
from spark_jobs.protocol.errors import CorruptData
from spark_jobs.protocol.log_files import (
    LEADER_EPOCH_CHECKPOINT,
    PARTITION_METADATA,
    FileSuffix,
    LogFileKind,
    parse_file_name,
)
from spark_jobs.protocol.partition_metadata import read_partition_metadata
from spark_jobs.protocol.snapshot import read_snapshot
from spark_jobs.protocol.txn_index import AbortedTxn, read_txn_index

_SWAPPED_LOG = f".{LogFileKind.LOG}.{FileSuffix.SWAP}"
_SNAPSHOT_COLUMNS = ("snapshot", "end_offset", "producers", "open_transactions")


def neighbour_tables(log: PartitionLog) -> Iterator[Table]:
    """Snapshots and leader epochs that can be read."""
    snapshots = tuple(row for path in _files(log, LogFileKind.SNAPSHOT) for row in _snapshot_row(path))
    if snapshots:
        yield Table(name="snapshot", columns=_SNAPSHOT_COLUMNS, rows=snapshots)
    epochs = _leader_epochs(log.path)
    if epochs:
        yield values_table("leader_epoch", EpochEntry, epochs)


def _files(log: PartitionLog, kind: LogFileKind) -> list[Path]:
    return [path for file, path in log_files(log.path) if file.kind is kind]


def _snapshot_row(path: Path) -> Iterator[tuple[Cell, ...]]:
    try:
        entries = read_snapshot(path.read_bytes(), source=path.name)
    except CorruptData:
        return
    open_count = sum(entry.current_txn_first_offset is not None for entry in entries)
    yield path.name, int(path.name.partition(".")[0]), len(entries), open_count


def _leader_epochs(directory: Path) -> tuple[EpochEntry, ...]:
    path = directory / LEADER_EPOCH_CHECKPOINT
    try:
        return read_leader_epochs(path.read_bytes(), source=path.name) if path.is_file() else ()
    except CorruptData:
        return ()


def neighbour_remarks(log: PartitionLog) -> Iterator[Remark]:
    """What a broker would stumble over when it loads the directory."""
    yield from _corrupt_files(log.path)
    yield from _indexes_that_lack_aborts(log)
    yield from _leftovers(log.path)


def _corrupt_files(directory: Path) -> Iterator[Remark]:
    """Small files that do not follow their format; what a broker then does differs by kind (facts §6)."""
    for path in sorted(path for path in directory.iterdir() if path.is_file()):
        problem = _problem(path)
        if problem is not None:
            yield error(str(problem))


def _problem(path: Path) -> CorruptData | None:
    named = parse_file_name(path.name)
    try:
        if named and named.kind is LogFileKind.SNAPSHOT:
            read_snapshot(path.read_bytes(), source=path.name)
        elif named and named.kind is LogFileKind.TXN_INDEX:
            read_txn_index(path.read_bytes(), base_offset=named.offset, source=path.name)
        elif path.name == LEADER_EPOCH_CHECKPOINT:
            read_leader_epochs(path.read_bytes(), source=path.name)
        elif path.name == PARTITION_METADATA:
            read_partition_metadata(path.read_bytes(), source=path.name)
    except CorruptData as problem:
        return problem
    return None


def _indexes_that_lack_aborts(log: PartitionLog) -> Iterator[Remark]:
    """Aborted transactions that no index lists: a broker that trusts the index serves them as committed."""
    listed = {(entry.producer_id, entry.last_offset) for entry in _listed_aborts(log)}
    found = log.visibility.aborted_txns
    pairs = zip(found.producer_id.tolist(), found.last_offset.tolist(), strict=True)
    lacking = [pair for pair in pairs if pair not in listed]
    if lacking:
        producer_id, last_offset = lacking[0]
        yield warning(
            f"{plural(len(lacking), 'aborted transaction')} not in the transaction index, the first of "
            f"producer {producer_id} with its marker at offset {last_offset:,}: "
            "a broker that trusts the index serves it as committed"
        )


def _listed_aborts(log: PartitionLog) -> Iterator[AbortedTxn]:
    for path in _files(log, LogFileKind.TXN_INDEX):
        try:
            yield from read_txn_index(path.read_bytes(), source=path.name)
        except CorruptData:
            continue


def _leftovers(directory: Path) -> Iterator[Remark]:
    taken = {path.name for _, path in log_files(directory)}
    named = {path.name: parse_file_name(path.name) for path in directory.iterdir()}
    suffixed = {name: file.suffix for name, file in named.items() if file is not None and file.suffix}
    if swapped := [name for name in suffixed if name in taken and name.endswith(_SWAPPED_LOG)]:
        names = ", ".join(sorted(swapped))
        yield note(
            f"{plural(len(swapped), 'segment')} that a compaction was swapping in ({names}): "
            "read in place of the files that they cover, as a broker does when it starts"
        )
    suffixes = [str(suffix) for name, suffix in suffixed.items() if name not in taken]
    for suffix in sorted(set(suffixes)):
        yield note(
            f"{plural(suffixes.count(suffix), 'file')} on the way out or in (.{suffix}), not part of the log"
        )
