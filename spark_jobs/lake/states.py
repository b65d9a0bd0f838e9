"""The state of a partition between runs, as a file of canonical bytes, and the table of state files.

Equal states are equal files. A file is named by its SHA-256 and never changes. All numbers are big-endian:

    magic "ONCE", version int16
    log_start_offset, end_offset, published_offset int64
    parked, gaps: 32 bytes each, the SHA-256 of a file of inherited rows and of one of gaps, zeros for none
    leader epochs, producers, open transactions: int32 each, how many rows of each follow, in this order

Version 2 adds to each transaction the offsets that are missing inside it. Version 3 has the topic id, 16
bytes, after these numbers, and transactions as in version 2. A state is written in the oldest version that
can represent it.
"""

import base64
import hashlib
import secrets
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from struct import Struct
from typing import Any

import numpy as np
import pyarrow as pa

from spark_jobs.config.canonical import digest_of
from spark_jobs.flow import STEPS, Step
from spark_jobs.kafka.formats.checkpoints import EpochEntry
from spark_jobs.kafka.producers.producer_state import NO_OFFSET
from spark_jobs.kafka.topic_partition import TopicPartition
from spark_jobs.kernels.partition_transactions import NO_MARKER, TRANSACTION
from spark_jobs.kernels.producers import PRODUCER, ROWS_PER_PART, Rows, canonical_parts
from spark_jobs.lake.chain import Chain
from spark_jobs.lake.errors import BrokenState
from spark_jobs.lake.file_store import translated
from spark_jobs.lake.layout import state_key, step_key
from spark_jobs.lake.object_store import ObjectStore
from spark_jobs.lake.parquet_file import HashedFile, put_table, read_table
from spark_jobs.lake.run_folder import EMPTY_STATE, OutputFile, RunFolder
from spark_jobs.tables.states import STATES

MAGIC = b"ONCE"
VERSION = 1
WITH_GAPS = 2
WITH_TOPIC_ID = 3
_PREAMBLE = Struct(">4sh")
_HEADING = Struct(">qqq32s32siii")
_NOTHING = bytes(32)
_TOPIC_ID_SIZE = 16
MANY_PRODUCERS = 1 << 14
"""A state with more producers is never in memory as bytes: it is written and hashed in parts."""

_EPOCH = np.dtype([("epoch", ">i4"), ("start_offset", ">i8")])
_PRODUCER = np.dtype(
    [
        ("producer_id", ">i8"),
        ("producer_epoch", ">i2"),
        ("coordinator_epoch", ">i4"),
        ("last_timestamp", ">i8"),
        ("txn_first_offset", ">i8"),
        ("batches", "i1"),
        ("last_sequence", ">i4", 5),
        ("offset_delta", ">i4", 5),
        ("last_offset", ">i8", 5),
        ("timestamp", ">i8", 5),
    ]
)
_TRANSACTION = np.dtype(
    [
        ("producer_id", ">i8"),
        ("producer_epoch", ">i2"),
        ("first_epoch", ">i2"),
        ("first_offset", ">i8"),
        ("last_offset", ">i8"),
        ("batches", ">i8"),
        ("records", ">i8"),
        ("first_timestamp", ">i8"),
        ("last_timestamp", ">i8"),
    ]
)
_GAPS = ("gap_first_offset", "gap_last_offset")
_TRANSACTION_WITH_GAPS = np.dtype([*_TRANSACTION.descr, *((n, ">i8") for n in _GAPS)])
_TRANSACTIONS = {
    VERSION: _TRANSACTION,
    WITH_GAPS: _TRANSACTION_WITH_GAPS,
    WITH_TOPIC_ID: _TRANSACTION_WITH_GAPS,
}


def _no_producers() -> Rows:
    return np.empty(0, dtype=PRODUCER)


def _no_transactions() -> Rows:
    return np.empty(0, dtype=TRANSACTION)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PartitionState:
    """One partition up to (excluding) `end_offset`; compare states by their bytes.

    `published_offset` is where publishing began: `rebuild` sets it once and later runs keep it; how far a
    run has published is in `resolved_partitions`. `producers` are rows of `PRODUCER`, one for each, in any
    order; those of a file are canonical. `open_transactions`, rows of `TRANSACTION` by first offset, are
    those that no marker of the partition has closed. `parked` names a file of inherited rows, `gaps` one of
    missing offsets and the batches held behind them; empty without any. `topic_id` is the topic's, as
    `partition.metadata` spells it; empty if unknown.
    """

    log_start_offset: int = 0
    end_offset: int = 0
    published_offset: int = 0
    leader_epochs: tuple[EpochEntry, ...] = ()
    producers: Rows = field(default_factory=_no_producers)
    open_transactions: Rows = field(default_factory=_no_transactions)
    parked: str = ""
    gaps: str = ""
    topic_id: str = ""

    @property
    def leader_epoch(self) -> int:
        """The newest leader epoch; 0 without any."""
        return self.leader_epochs[-1].epoch if self.leader_epochs else 0

    def without_producers(self) -> "PartitionState":
        """The state without its producers: a million of them are 150 MB."""
        return replace(self, producers=_no_producers())


def write_state(state: PartitionState) -> bytes:
    """The file of `state`."""
    return b"".join(_pieces(state))


def _pieces(state: PartitionState) -> Iterator[bytes]:
    """The file of `state` in pieces; producers in pieces of bounded size."""
    version = WITH_TOPIC_ID if state.topic_id else version_for(state.open_transactions)
    yield _PREAMBLE.pack(MAGIC, version)
    yield _HEADING.pack(
        state.log_start_offset,
        state.end_offset,
        state.published_offset,
        bytes.fromhex(state.parked) or _NOTHING,
        bytes.fromhex(state.gaps) or _NOTHING,
        len(state.leader_epochs),
        len(state.producers),
        len(state.open_transactions),
    )
    yield base64.urlsafe_b64decode(state.topic_id + "==") if state.topic_id else b""
    yield np.array([(e.epoch, e.start_offset) for e in state.leader_epochs], dtype=_EPOCH).tobytes()
    for part in canonical_parts(state.producers):
        yield _packed(part, _PRODUCER).tobytes()
    yield _packed(state.open_transactions, _TRANSACTIONS[version]).tobytes()


def version_for(transactions: Rows) -> int:
    """The oldest version that can represent `transactions`."""
    return WITH_GAPS if (transactions["gap_first_offset"] != NO_OFFSET).any() else VERSION


def read_state(data: bytes, *, source: str = "<bytes>", with_producers: bool = True) -> PartitionState:
    """The state in `data`; `source` names it in messages."""
    if len(data) < _PREAMBLE.size:
        raise BrokenState(f"{source}: {len(data)} bytes are too short for a state file")
    magic, version = _PREAMBLE.unpack_from(data)
    if magic != MAGIC or version not in _TRANSACTIONS:
        readable = " or ".join(map(str, _TRANSACTIONS))
        raise BrokenState(
            f"{source}: found magic {magic!r}, version {version}; expected {MAGIC!r}, version {readable}"
        )
    return _read_rows(data, version, source, with_producers=with_producers)


def _read_rows(data: bytes, version: int, source: str, *, with_producers: bool) -> PartitionState:
    end_of_heading = _PREAMBLE.size + _HEADING.size
    start = end_of_heading + (_TOPIC_ID_SIZE if version == WITH_TOPIC_ID else 0)
    if len(data) < start:
        raise BrokenState(f"{source}: a state file of {len(data)} bytes ends before its rows")
    log_start, end, published, parked, gaps, *counts = _HEADING.unpack_from(data, _PREAMBLE.size)
    topic_id = base64.urlsafe_b64encode(data[end_of_heading:start]).decode().rstrip("=")
    tables = []
    for kind, count in zip((_EPOCH, _PRODUCER, _TRANSACTIONS[version]), counts, strict=True):
        if count < 0 or start + count * kind.itemsize > len(data):
            raise BrokenState(f"{source}: a state file of {len(data)} bytes has no room for {count} rows")
        tables.append(np.frombuffer(data, dtype=kind, count=count, offset=start))
        start += count * kind.itemsize
    epochs, producers, transactions = tables
    return PartitionState(
        log_start_offset=log_start,
        end_offset=end,
        published_offset=published,
        leader_epochs=tuple(EpochEntry(epoch=int(e), start_offset=int(o)) for e, o in epochs),
        producers=_unpacked(producers, PRODUCER) if with_producers else _no_producers(),
        open_transactions=_inherited(without_gaps(_unpacked(transactions, TRANSACTION), transactions)),
        parked="" if parked == _NOTHING else parked.hex(),
        gaps="" if gaps == _NOTHING else gaps.hex(),
        topic_id=topic_id,
    )


def put_state(lake: ObjectStore, state: PartitionState, *, durable: bool = True) -> str:
    """Stores `state` in the lake; returns the digest that names it."""
    if len(state.producers) <= MANY_PRODUCERS:
        return put_content(lake, write_state(state), durable=durable)
    path = lake.scratch() / secrets.token_hex(8)
    try:
        with translated(str(path)), HashedFile(path) as file:
            for piece in _pieces(state):
                file.write(piece)
        if not _is_there(lake, file.sha256, file.size):
            lake.adopt(path, state_key(file.sha256), durable=durable)
    finally:
        path.unlink(missing_ok=True)
    return file.sha256


def make_states_durable(lake: ObjectStore, digests: Iterable[str]) -> None:
    """Returns when states that were written with `durable=False` survive a power failure."""
    lake.make_durable(state_key(digest) for digest in dict.fromkeys(digests))


def get_state(lake: ObjectStore, digest: str, *, with_producers: bool = True) -> PartitionState:
    """The state of that name; its digest is verified."""
    data, source = get_content(lake, digest), lake.url_of(state_key(digest))
    return read_state(data, source=source, with_producers=with_producers)


def put_content(lake: ObjectStore, data: bytes, *, durable: bool = True) -> str:
    """Stores `data` among the states, named by its SHA-256; a truncated file is written again."""
    digest = hashlib.sha256(data).hexdigest()
    if not _is_there(lake, digest, len(data)):
        lake.put(state_key(digest), data, durable=durable)
    return digest


def _is_there(lake: ObjectStore, digest: str, size: int) -> bool:
    found = lake.stat(state_key(digest))
    return found is not None and found.size == size


def get_content(lake: ObjectStore, digest: str) -> bytes:
    """The bytes of that name; raises `BrokenState` if their SHA-256 differs."""
    data = lake.read(state_key(digest))
    found = hashlib.sha256(data).hexdigest()
    if found != digest:
        raise BrokenState(f"{lake.url_of(state_key(digest))}: expected SHA-256 {digest}, found {found}")
    return data


def _packed(rows: Rows, kind: np.dtype[Any]) -> Rows:
    packed = np.zeros(len(rows), dtype=kind)
    for name in kind.names or ():
        packed[name] = rows[name]
    return packed


def _unpacked(rows: Rows, kind: np.dtype[Any]) -> Rows:
    unpacked = np.zeros(len(rows), dtype=kind)
    for start in range(0, len(rows), ROWS_PER_PART):
        part = slice(start, start + ROWS_PER_PART)
        for name in rows.dtype.names or ():
            unpacked[name][part] = rows[name][part]
    return unpacked


def without_gaps(rows: Rows, stored: Rows) -> Rows:
    """`rows` as read from `stored` ones; without gaps if the stored version has no columns for them."""
    for name in _GAPS if _GAPS[0] not in (stored.dtype.names or ()) else ():
        rows[name] = NO_OFFSET
    return rows


def _inherited(transactions: Rows) -> Rows:
    """Open transactions as a run inherits them: begun before the run, without a marker."""
    transactions["began_before"] = 1
    for name in ("marker_type", "marker_offset", "marker_epoch", "coordinator_epoch", "marker_timestamp"):
        transactions[name] = NO_MARKER
    return transactions


STATE_STEPS = (Step.RESOLVE, Step.ADMIT)
"""The steps that write partition states, the authoritative one first."""

States = Mapping[TopicPartition, str]
"""Digest of each partition's state file."""


def put_states(folder: RunFolder, step: Step, states: States) -> OutputFile:
    """Writes the table of `states` as an output of `step`."""
    rows = [
        {"topic": partition.topic, "partition": partition.partition, "state": digest}
        for partition, digest in sorted(states.items())
    ]
    table = STATES.cast(pa.Table.from_pylist(rows, schema=STATES.schema))
    return put_table(folder.lake, folder.key(step), STATES.file, table)


def read_states(lake: ObjectStore, run_id: str, step: Step) -> dict[TopicPartition, str]:
    """The states that `step` of a run wrote."""
    columns = read_table(lake, step_key(run_id, step, STATES.file)).to_pydict()
    partitions = map(TopicPartition, columns["topic"], columns["partition"])
    return dict(zip(partitions, columns["state"], strict=True))


def digest_of_states(states: States) -> str:
    """The state digest that a step with these `states` reports."""
    return digest_of([[*partition, digest] for partition, digest in sorted(states.items())])


def states_before(lake: ObjectStore, chain: Chain, state_in: str) -> tuple[str, dict[TopicPartition, str]]:
    """The run that ended in `state_in` and its states; none for a first run."""
    if state_in == EMPTY_STATE:
        return "", {}
    entry = chain.run_with_state(state_in)
    if entry is None:
        raise BrokenState(f"{lake.url}: no run of the chain ended in the state {state_in}")
    reached = STEPS[: STEPS.index(entry.last_step) + 1]
    for step in STATE_STEPS:
        if step in reached and lake.stat(step_key(entry.run_id, step, STATES.file)) is not None:
            return entry.run_id, read_states(lake, entry.run_id, step)
    return entry.run_id, {}
