"""Records that go to a file on the short way and those that become a table first: the same file's content."""

from collections.abc import Iterable
from datetime import date
from io import BytesIO

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.kernels.headers import scan_headers
from spark_jobs.materialising.decoding import Decoder, Piece
from spark_jobs.materialising.outcomes import COMMITTED, Outcomes, View
from spark_jobs.materialising.record_leaves import leaves_of
from spark_jobs.materialising.record_table import RecordTable, as_written
from spark_jobs.materialising.rows import NONE, BatchRows
from spark_jobs.parquet.writer import ParquetWriter
from spark_jobs.protocol.batch_builder import build_batch
from spark_jobs.protocol.legacy_builder import write_message
from spark_jobs.protocol.limits import DEFAULT_LIMITS
from spark_jobs.protocol.records import Header, Record
from spark_jobs.tables.materialise import RECORDS
from tests.protocol.strategies import BATCHES

SCHEMA = as_written(RECORDS.schema)
NAMES = pa.array(["billing", None, "shipping"], pa.string())
OUTCOMES = Outcomes(
    first_offset=np.arange(3, dtype=np.int64),
    outcome=pa.array([COMMITTED] * 3, pa.string()),
    transactional_id=NAMES,
)
TABLE = RecordTable(
    partition=3,
    view=View(first_offset=-(2**63), end_offset=2**63 - 1, outcomes=OUTCOMES),
    run_date=date(2024, 5, 1),
)


def pieces_of(log: bytes, transactions: Iterable[int]) -> list[Piece]:
    headers = scan_headers(log, check_magic=False).columns
    rows = BatchRows(
        headers=headers,
        is_accepted=np.ones(headers.rows, dtype=np.bool_),
        object_order=np.zeros(headers.rows, dtype=np.int32),
        txn_first_offset=np.fromiter(transactions, dtype=np.int64, count=headers.rows),
    )
    decoder = Decoder(read=lambda _, start, size: log[start : start + size], name=str, limits=DEFAULT_LIMITS)
    return [piece for piece in decoder.decode(rows) if piece.found.count]


def by_leaves(pieces: Iterable[Piece]) -> pa.Table:
    output = BytesIO()
    writer = ParquetWriter(output, SCHEMA)
    for piece in pieces:
        writer.write_leaves(leaves_of(TABLE, piece))
    writer.close()
    return pq.ParquetFile(output, page_checksum_verification=True).read()


def by_tables(pieces: Iterable[Piece]) -> pa.Table:
    plain = pa.schema([field.remove_metadata() for field in RECORDS.schema])
    return pa.concat_tables([SCHEMA.empty_table(), *map(TABLE.rows_of, pieces)]).cast(plain)


@given(st.lists(st.tuples(BATCHES, st.sampled_from((NONE, 0, 1, 2))), max_size=6))
def test_any_batches(batches: list[tuple[bytes, int]]) -> None:
    pieces = pieces_of(b"".join(batch for batch, _ in batches), [number for _, number in batches])

    assert by_leaves(pieces).equals(by_tables(pieces))


@pytest.mark.parametrize("records", [1, 7, 8, 300])
@pytest.mark.parametrize("transactions", [(NONE,), (0,), (1,), (0, 2), (NONE, 0, 1, 2)])
def test_batches_of_few_and_of_many_records(records: int, transactions: tuple[int, ...]) -> None:
    chosen = [transactions[number % len(transactions)] for number in range(20)]
    log = b"".join(
        build_batch(
            records=[
                Record(
                    offset_delta=each,
                    key=None if each % 3 else b"k%d" % each,
                    value=b"v" * (each % 50) if each % 7 else None,
                    headers=(Header(key="h", value=None),) * (each % 2 * number % 3),
                )
                for each in range(records)
            ],
            base_timestamp=1_000 * number,
            base_offset=records * number,
            producer_id=number // 3,
            producer_epoch=number % 2,
            base_sequence=0,
        )
        for number in range(20)
    )
    pieces = pieces_of(log, chosen)

    assert by_leaves(pieces).num_rows == 20 * records
    assert by_leaves(pieces).equals(by_tables(pieces))


def test_messages_of_the_older_formats() -> None:
    log = b"".join(
        write_message(offset=offset, magic=magic, timestamp=7, key=key, value=value)
        for offset, (magic, key, value) in enumerate(
            [(0, None, b"a"), (0, b"k", None), (1, b"", b""), (1, b"x", b"yz")]
        )
    )
    pieces = pieces_of(log, [NONE] * 4)

    assert by_leaves(pieces).equals(by_tables(pieces))
    assert by_leaves(pieces).column("key").to_pylist() == [None, b"k", b"", b"x"]
    assert by_leaves(pieces).column("value").to_pylist() == [b"a", None, b"", b"yz"]
