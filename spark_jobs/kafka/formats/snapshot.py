"""`.snapshot` files: the producer state that a broker keeps across a restart (facts §1.8)."""

from collections.abc import Iterable
from struct import Struct

from spark_jobs.kafka.errors import CorruptSnapshot
from spark_jobs.kafka.formats.record_batch import crc32c
from spark_jobs.kafka.producers.producer_state import NO_OFFSET, BatchMetadata, ProducerStateEntry

_PREAMBLE = Struct(">hI")  # version, CRC-32C of everything after it
_COUNT = Struct(">i")
_ENTRY = Struct(
    ">"
    "q"  # producer_id
    "h"  # producer_epoch            -1 for an entry of an empty control batch
    "i"  # last_sequence             of the newest remembered batch; -1 without one
    "q"  # last_offset               likewise; below 0 means that there is none
    "i"  # offset_delta              last - first offset of that batch
    "q"  # timestamp                 of the producer's last batch or marker
    "i"  # coordinator_epoch         of its last marker
    "q"  # current_txn_first_offset  below 0 means that none is open
)
_VERSION = 1
ENTRIES_START = _PREAMBLE.size + _COUNT.size
"""Where the entries of a file begin."""


def read_snapshot(data: bytes | memoryview, *, source: str = "<bytes>") -> tuple[ProducerStateEntry, ...]:
    """The entries in the file's order; each has at most its newest batch."""
    return tuple(_read_entry(fields) for fields in _ENTRY.iter_unpack(packed_entries(data, source=source)))


def packed_entries(data: bytes | memoryview, *, source: str = "<bytes>") -> memoryview:
    """The entries of a file that a broker would trust, still as bytes."""
    view = memoryview(data)
    if len(view) < ENTRIES_START:
        raise _corrupt(source, 0, f"at least {ENTRIES_START} bytes", len(view))
    version, crc = _PREAMBLE.unpack_from(view)
    if version != _VERSION:
        raise _corrupt(source, 0, f"version {_VERSION}", version)
    found = crc32c(view[_PREAMBLE.size :])
    if crc != found:
        raise _corrupt(source, 2, f"CRC {crc:#010x}", f"{found:#010x}")
    (count,) = _COUNT.unpack_from(view, _PREAMBLE.size)
    if not 0 <= count <= (len(view) - ENTRIES_START) // _ENTRY.size:
        raise _corrupt(source, _PREAMBLE.size, f"{count} entries", f"{len(view)} bytes")
    return view[ENTRIES_START : ENTRIES_START + count * _ENTRY.size]


def _corrupt(source: str, position: int, expected: object, found: object) -> CorruptSnapshot:
    return CorruptSnapshot(source=source, position=position, expected=expected, found=found)


def _read_entry(fields: tuple[int, ...]) -> ProducerStateEntry:
    (
        producer_id,
        epoch,
        last_sequence,
        last_offset,
        offset_delta,
        timestamp,
        coordinator_epoch,
        first_offset,
    ) = fields
    newest = BatchMetadata(
        last_sequence=last_sequence, last_offset=last_offset, offset_delta=offset_delta, timestamp=timestamp
    )
    return ProducerStateEntry(
        producer_id=producer_id,
        producer_epoch=epoch,
        coordinator_epoch=coordinator_epoch,
        last_timestamp=timestamp,
        current_txn_first_offset=None if first_offset < 0 else first_offset,
        batches=() if last_offset < 0 else (newest,),
    )


def write_snapshot(entries: Iterable[ProducerStateEntry]) -> bytes:
    """The file of `entries`, in their order; only the newest batch of each is written."""
    data = bytearray(ENTRIES_START) + b"".join(_write_entry(entry) for entry in entries)
    seal_entries(data)
    return bytes(data)


def seal_entries(data: bytearray | memoryview) -> None:
    """Completes a file whose packed entries begin at `ENTRIES_START`: writes version, CRC and count."""
    _COUNT.pack_into(data, _PREAMBLE.size, (len(data) - ENTRIES_START) // _ENTRY.size)
    _PREAMBLE.pack_into(data, 0, _VERSION, crc32c(memoryview(data)[_PREAMBLE.size :]))


def _write_entry(entry: ProducerStateEntry) -> bytes:
    first_offset = entry.current_txn_first_offset
    return _ENTRY.pack(
        entry.producer_id,
        entry.producer_epoch,
        entry.last_sequence,
        entry.last_data_offset,
        entry.batches[-1].offset_delta if entry.batches else 0,
        entry.last_timestamp,
        entry.coordinator_epoch,
        NO_OFFSET if first_offset is None else first_offset,
    )
