"""Reports on the small files of a log directory, and remarks on those beside a partition's segments."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import astuple, fields
from pathlib import Path
from typing import Any

from spark_jobs.inspect.printers import Cell, Report, Table
from spark_jobs.inspect.stored_partition import StoredPartition, log_files
from spark_jobs.kafka.errors import CorruptData
from spark_jobs.kafka.formats.checkpoints import (
    EpochEntry,
    OffsetCheckpointEntry,
    read_leader_epochs,
    read_offsets,
    read_partition_metadata,
)
from spark_jobs.kafka.formats.indexes import (
    AbortedTxn,
    OffsetPosition,
    TimestampOffset,
    read_offset_index,
    read_time_index,
    read_txn_index,
)
from spark_jobs.kafka.formats.log_files import (
    LEADER_EPOCH_CHECKPOINT,
    PARTITION_METADATA,
    QUORUM_STATE,
    FileSuffix,
    LogFileKind,
    parse_file_name,
)
from spark_jobs.kafka.formats.snapshot import read_snapshot
from spark_jobs.kafka.producers.producer_state import ProducerStateEntry
from spark_jobs.reading.remarks import Remark, error, note, plural, warning

_TXN_INDEX_ENTRY = 34
PRODUCER_COLUMNS = (
    "producer_id", "producer_epoch", "coordinator_epoch", "last_sequence", "last_offset", "offset_delta",
    "last_timestamp", "current_txn_first_offset",
)  # fmt: skip
_SWAPPED_LOG = f".{LogFileKind.LOG}.{FileSuffix.SWAP}"
_SNAPSHOT_COLUMNS = ("snapshot", "end_offset", "producers", "open_transactions")


def base_offset_of(path: Path) -> int:
    """The offset in a file's name; 0 where the name has none."""
    named = parse_file_name(path.name)
    return named.offset if named else 0


def values_table(name: str, kind: Any, values: Iterable[Any]) -> Table:
    """A table with a column for each field of a dataclass."""
    columns = tuple(field.name for field in fields(kind))
    return Table(name=name, columns=columns, rows=tuple(astuple(value) for value in values))


def report_snapshot(path: Path) -> Report:
    """A producer snapshot: the state behind all offsets below the one in its name."""
    entries = read_snapshot(path.read_bytes(), source=path.name)
    return Report(
        path=str(path),
        kind="snapshot",
        facts=(("end_offset", base_offset_of(path)), ("producers", len(entries))),
        tables=(producers_table(entries),),
        remarks=tuple(_snapshot_remarks(entries)),
    )


def producers_table(entries: Iterable[ProducerStateEntry]) -> Table:
    return Table(
        name="producer", columns=PRODUCER_COLUMNS, rows=tuple(_producer_row(entry) for entry in entries)
    )


def _producer_row(entry: ProducerStateEntry) -> tuple[Cell, ...]:
    return (
        entry.producer_id,
        entry.producer_epoch,
        entry.coordinator_epoch,
        entry.last_sequence,
        entry.last_data_offset,
        entry.batches[-1].offset_delta if entry.batches else 0,
        entry.last_timestamp,
        entry.current_txn_first_offset,
    )


def _snapshot_remarks(entries: tuple[ProducerStateEntry, ...]) -> Iterable[Remark]:
    begun = [
        entry.current_txn_first_offset for entry in entries if entry.current_txn_first_offset is not None
    ]
    if begun:
        yield warning(f"{plural(len(begun), 'open transaction')}, the oldest from offset {min(begun):,}")


def report_txn_index(path: Path) -> Report:
    """A transaction index: the aborted transactions whose markers are in its segment."""
    data = path.read_bytes()
    entries = read_txn_index(data, base_offset=base_offset_of(path), source=path.name)
    torn = len(data) % _TXN_INDEX_ENTRY
    return Report(
        path=str(path),
        kind="transaction_index",
        facts=(("aborted_transactions", len(entries)),),
        tables=(values_table("aborted_transaction", AbortedTxn, entries),),
        remarks=(warning(f"{plural(torn, 'trailing byte')} that a broker ignores"),) if torn else (),
    )


def report_offset_index(path: Path) -> Report:
    """An offset index."""
    data = path.read_bytes()
    entries = read_offset_index(data, base_offset=base_offset_of(path), source=path.name)
    return _index_report(
        path, "offset_index", values_table("offset_position", OffsetPosition, entries), len(data) // 8
    )


def report_time_index(path: Path) -> Report:
    """A time index."""
    data = path.read_bytes()
    entries = read_time_index(data, base_offset=base_offset_of(path), source=path.name)
    return _index_report(
        path, "time_index", values_table("timestamp_offset", TimestampOffset, entries), len(data) // 12
    )


def _index_report(path: Path, kind: str, table: Table, room: int) -> Report:
    unused = room - len(table.rows)
    remarks = (note(f"{plural(unused, 'preallocated entry')} not in use"),) if unused else ()
    return Report(
        path=str(path), kind=kind, facts=(("entries", len(table.rows)),), tables=(table,), remarks=remarks
    )


def report_leader_epochs(path: Path) -> Report:
    """A leader epoch checkpoint."""
    entries = read_leader_epochs(path.read_bytes(), source=path.name)
    table = values_table("leader_epoch", EpochEntry, entries)
    return Report(
        path=str(path), kind="leader_epoch_checkpoint", facts=(("epochs", len(entries)),), tables=(table,)
    )


def report_offset_checkpoint(path: Path) -> Report:
    """An offset checkpoint of a log directory, sorted by partition."""
    entries = sorted(read_offsets(path.read_bytes(), source=path.name), key=lambda e: (e.topic, e.partition))
    table = values_table("offset", OffsetCheckpointEntry, entries)
    return Report(
        path=str(path), kind="offset_checkpoint", facts=(("partitions", len(entries)),), tables=(table,)
    )


def report_partition_metadata(path: Path) -> Report:
    """A partition's metadata file."""
    metadata = read_partition_metadata(path.read_bytes(), source=path.name)
    return Report(
        path=str(path),
        kind="partition_metadata",
        facts=(("version", metadata.version), ("topic_id", metadata.topic_id)),
    )


def report_meta_properties(path: Path) -> Report:
    """A log directory's `meta.properties`: which broker and cluster it belongs to, as lines of key=value."""
    lines = path.read_bytes().decode(errors="replace").splitlines()
    pairs = [line.partition("=") for line in lines if line.strip() and not line.lstrip().startswith("#")]
    wrong = [key for key, separator, _ in pairs if not separator]
    facts = tuple((_fact(key), value.strip()) for key, separator, value in pairs if separator)
    remarks = (warning(f"{plural(len(wrong), 'line')} without '='"),) if wrong else ()
    return Report(path=str(path), kind="meta_properties", facts=facts, remarks=remarks)


def report_json(path: Path) -> Report:
    """`quorum-state` and `.kafka_cleanshutdown`: one JSON object, or nothing in an older version's mark."""
    kind = "quorum_state" if path.name == QUORUM_STATE else "clean_shutdown"
    data = path.read_bytes().strip()
    try:
        found = json.loads(data) if data else {}
    except (ValueError, RecursionError) as problem:
        return _not_json(path, kind, str(problem))
    if not isinstance(found, dict):
        return _not_json(path, kind, f"found {type(found).__name__}")
    facts = tuple((_fact(key), _json_cell(value)) for key, value in found.items())
    return Report(path=str(path), kind=kind, facts=facts)


def _not_json(path: Path, kind: str, problem: str) -> Report:
    return Report(path=str(path), kind=kind, facts=(), remarks=(error(f"expected a JSON object: {problem}"),))


def _fact(name: str) -> str:
    """The name of a member, apart from those that every object has."""
    plain = name.strip().replace(".", "_")
    return f"{plain}_" if plain in {"kind", "path"} else plain


def _json_cell(value: Any) -> Cell:
    return value if isinstance(value, str | int | None) else json.dumps(value)


def neighbour_tables(log: StoredPartition) -> Iterator[Table]:
    """Snapshots and leader epochs that can be read."""
    snapshots = tuple(row for path in _files(log, LogFileKind.SNAPSHOT) for row in _snapshot_row(path))
    if snapshots:
        yield Table(name="snapshot", columns=_SNAPSHOT_COLUMNS, rows=snapshots)
    epochs = _leader_epochs(log.path)
    if epochs:
        yield values_table("leader_epoch", EpochEntry, epochs)


def _files(log: StoredPartition, kind: LogFileKind) -> list[Path]:
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


def neighbour_remarks(log: StoredPartition) -> Iterator[Remark]:
    """What a broker would reject or misread when it loads the directory."""
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


def _indexes_that_lack_aborts(log: StoredPartition) -> Iterator[Remark]:
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


def _listed_aborts(log: StoredPartition) -> Iterator[AbortedTxn]:
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
            f"{plural(suffixes.count(suffix), 'file')} being deleted or added (.{suffix}), not in the log"
        )
