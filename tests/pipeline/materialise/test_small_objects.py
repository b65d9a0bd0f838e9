"""Small objects are decoded together, and nothing about their records or their problems shows it."""

import numpy as np
import pytest

from spark_jobs.kafka.formats.batch_builder import build_batch, seal
from spark_jobs.kafka.formats.limits import RecordLimits
from spark_jobs.kafka.formats.record_batch import HEADER_SIZE, Codec, read_header
from spark_jobs.kafka.formats.records import Record
from spark_jobs.kernels.scan import scan_headers
from spark_jobs.lake.errors import ObjectChanged
from spark_jobs.pipeline.materialise.batch_rows import BatchRows, join_rows
from spark_jobs.pipeline.materialise.decoding import DecodedPiece, Decoder


def batch(number: int, codec: Codec = Codec.LZ4) -> bytes:
    records = [Record(offset_delta=each, value=b"%d-%d" % (number, each)) for each in range(3)]
    return build_batch(records=records, base_timestamp=1000, base_offset=10 * number, codec=codec)


def objects(count: int) -> dict[int, bytes]:
    """Each begins with bytes that are not needed."""
    codecs = (Codec.LZ4, Codec.NONE, Codec.ZSTD)
    return {order: b"xyz" + batch(order, codecs[order % 3]) for order in range(count)}


def rows_of(held: dict[int, bytes]) -> BatchRows:
    def of_one(order: int, data: bytes) -> BatchRows:
        headers = scan_headers(data, start=3).columns
        count = headers.rows
        return BatchRows(
            headers=headers,
            is_accepted=np.ones(count, dtype=np.bool_),
            object_order=np.full(count, order, dtype=np.int32),
            txn_first_offset=np.full(count, -1, dtype=np.int64),
        )

    return join_rows([of_one(order, data) for order, data in held.items()])


def decode(held: dict[int, bytes], rows: BatchRows) -> list[DecodedPiece]:
    decoder = Decoder(
        read=lambda order, start, length: held[order][start : start + length],
        name=lambda order: f"object {order}",
        limits=RecordLimits(),
    )
    return list(decoder.decode(rows))


def values(pieces: list[DecodedPiece]) -> list[bytes | None]:
    return [value for piece in pieces for value in piece.found.records.column("value").to_pylist()]


def test_small_objects_come_as_one_piece_with_the_places_of_their_batches() -> None:
    held = objects(7)
    rows = rows_of(held)
    pieces = decode(held, rows)
    assert len(pieces) == 1
    assert values(pieces) == [b"%d-%d" % (order, each) for order in held for each in range(3)]
    assert np.array_equal(pieces[0].rows.headers.position, rows.headers.position)
    assert pieces[0].found.records.column("batch").to_pylist() == [order for order in held for _ in range(3)]


def test_an_unreadable_batch_among_them_is_named_with_its_object() -> None:
    held = objects(5)
    header = read_header(held[2][3:])
    held[2] = b"xyz" + seal(header, b"\xff" * (len(held[2]) - 3 - HEADER_SIZE))
    pieces = decode(held, rows_of(held))
    problems = [problem.error for piece in pieces for problem in piece.problems]
    assert [(error.source, error.position) for error in problems] == [("object 2", 3 + HEADER_SIZE)]
    assert values(pieces) == [b"%d-%d" % (order, each) for order in (0, 1, 3, 4) for each in range(3)]


def test_an_object_that_is_another_by_now_is_named() -> None:
    held = objects(4)
    rows = rows_of(held)
    held[3] = held[3][:-1] + bytes((held[3][-1] ^ 1,))
    with pytest.raises(ObjectChanged, match="object 3"):
        decode(held, rows)
