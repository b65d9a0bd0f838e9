"""Records are decoded exactly as they were encoded, for every kind of batch; damage costs one batch."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from spark_jobs.kafka.formats.batch_builder import build_batch, seal
from spark_jobs.kafka.formats.control_record import ControlType, write_marker
from spark_jobs.kafka.formats.legacy import write_message
from spark_jobs.kafka.formats.record_batch import Codec, TimestampType, read_header
from spark_jobs.kafka.formats.records import Header, Record, read_records
from spark_jobs.kernels.scan import scan_headers
from spark_jobs.lake.errors import ObjectChanged
from spark_jobs.lake.inherited_rows import INHERITED, InheritedObject, InheritedRows, put_inherited
from spark_jobs.lake.parquet_file import read_table
from spark_jobs.lake.run_folder import OutputFile
from spark_jobs.pipeline.materialise.job import WrittenFiles
from spark_jobs.tables.contract import FIRST_TIMESTAMP_MS, LAST_TIMESTAMP_MS
from tests.kafka.wrappers import write_wrapper
from tests.pipeline.materialise.logs import FOLDER, RunData, run_of, with_partition
from tests.pipeline.materialise.truth import EPOCH, timestamp_ms


def _run(place: Path, *batches: bytes, name: str = "t-0", more: str = "") -> RunData:
    """A partition whose one segment holds `batches`."""
    directory = place / "source" / name
    directory.mkdir(parents=True)
    (directory / f"{0:020d}.log").write_bytes(b"".join(batches))
    return run_of([directory], place, more)


def _rows(run_data: RunData) -> list[dict[str, Any]]:
    return run_data.rows(run_data.materialise())


def _batch(first: int, *values: bytes, **named: Any) -> bytes:
    records = [Record(offset_delta=delta, value=value) for delta, value in enumerate(values)]
    return build_batch(records=records, base_timestamp=1000, base_offset=first, **named)


def test_null_is_not_empty_and_headers_keep_their_order_and_repetitions(tmp_path: Path) -> None:
    headers = (Header(key="h", value=b"1"), Header(key="h", value=None), Header(key="", value=b""))
    records = [
        Record(key=None, value=b"", headers=headers),
        Record(offset_delta=1, key=b"", value=None),
        Record(offset_delta=2, key=b"gone", value=None),
    ]
    rows = _rows(_run(tmp_path, build_batch(records=records, base_timestamp=5)))
    assert [(row["key"], row["value"]) for row in rows] == [(None, b""), (b"", None), (b"gone", None)]
    assert [(header["key"], header["value"]) for header in rows[0]["headers"]] == [
        ("h", b"1"), ("h", None), ("", b""),
    ]  # fmt: skip
    assert rows[1]["headers"] == []


@pytest.mark.parametrize("codec", Codec)
def test_every_codec_is_read(codec: Codec, tmp_path: Path) -> None:
    assert [row["value"] for row in _rows(_run(tmp_path, _batch(0, b"a" * 100, b"b", codec=codec)))] == [
        b"a" * 100, b"b",
    ]  # fmt: skip


def test_log_append_time_is_the_time_of_every_record(tmp_path: Path) -> None:
    batch = _batch(0, b"a", b"b", timestamp_type=TimestampType.LOG_APPEND_TIME, max_timestamp=77)
    rows = _rows(_run(tmp_path, batch))
    assert [(timestamp_ms(row), row["timestamp_type"]) for row in rows] == [(77, "LogAppendTime")] * 2


def test_a_compacted_batch_keeps_offsets_sequences_and_timestamps_of_what_is_left(tmp_path: Path) -> None:
    records = [Record(offset_delta=delta, timestamp_delta=delta, value=b"v") for delta in (2, 5)]
    batch = build_batch(
        records=records, base_timestamp=100, base_offset=40, last_offset_delta=9, producer_id=7,
        producer_epoch=3, base_sequence=2**31 - 3, partition_leader_epoch=6,
    )  # fmt: skip
    rows = _rows(_run(tmp_path, batch))
    names = ("offset", "sequence", "producer_id", "producer_epoch", "partition_leader_epoch")
    assert [(timestamp_ms(row), *(row[name] for name in names)) for row in rows] == [
        (102, 42, 2**31 - 1, 7, 3, 6),
        (105, 45, 2, 7, 3, 6),
    ]


def test_a_delete_horizon_is_no_base_timestamp(tmp_path: Path) -> None:
    batch = _batch(0, b"a", has_delete_horizon=True, max_timestamp=1234)
    found = [timestamp_ms(row) for row in _rows(_run(tmp_path, batch))]
    assert found == [record.timestamp for record in read_records(batch)]


def test_a_transaction_s_records_name_their_owner_and_aborted_ones_are_not_there(tmp_path: Path) -> None:
    producer = {"producer_epoch": 0, "base_sequence": 0, "is_transactional": True}
    marker: dict[str, Any] = {"partition_leader_epoch": 0, "timestamp": 1, "producer_epoch": 0}
    marker["coordinator_epoch"] = 0
    rows = _rows(
        _run(
            tmp_path,
            _batch(0, b"kept", producer_id=1, **producer),
            _batch(1, b"dropped", producer_id=2, **producer),
            _batch(2, b"plain"),
            write_marker(base_offset=3, producer_id=2, control_type=ControlType.ABORT, **marker),
            write_marker(base_offset=4, producer_id=1, control_type=ControlType.COMMIT, **marker),
        )
    )
    assert [(row["value"], row["transactional_id"]) for row in rows] == [(b"kept", "txn-0"), (b"plain", None)]


def test_records_before_the_log_s_start_are_not_there(tmp_path: Path) -> None:
    run_data = _run(tmp_path, _batch(0, b"0", b"1", b"2"), _batch(3, b"3"))
    run_data = with_partition(run_data, 0, first_offset=2)
    written = run_data.materialise()
    assert [row["offset"] for row in run_data.rows(written)] == [2, 3]
    assert [each.hidden for each in written] == [2]


def test_messages_of_the_older_formats_are_between_newer_ones(tmp_path: Path) -> None:
    inner = b"".join(write_message(offset=n, key=None, value=b"w%d" % n, timestamp=50 + n) for n in range(2))
    rows = _rows(
        _run(
            tmp_path,
            write_message(offset=0, key=b"k", value=None, magic=0),
            write_wrapper(inner, offset=2, codec=Codec.GZIP, timestamp=51),
            _batch(3, b"new"),
        )
    )
    names = ("offset", "timestamp_type", "key", "value")
    assert [(timestamp_ms(row), *(row[name] for name in names)) for row in rows] == [
        (-1, 0, "NoTimestampType", b"k", None),
        (50, 1, "CreateTime", None, b"w0"),
        (51, 2, "CreateTime", None, b"w1"),
        (1000, 3, "CreateTime", None, b"new"),
    ]


@pytest.mark.parametrize(
    ("given", "stored", "out_of_range"),
    [
        (1_700_000_000_123, datetime(2023, 11, 14, 22, 13, 20, 123_000, UTC), None),
        (0, EPOCH, None),
        (-1, None, None),
        (-2, EPOCH - timedelta(milliseconds=2), None),
        (FIRST_TIMESTAMP_MS, datetime(1, 1, 1, tzinfo=UTC), None),
        (FIRST_TIMESTAMP_MS - 1, None, FIRST_TIMESTAMP_MS - 1),
        (LAST_TIMESTAMP_MS, datetime(9999, 12, 31, 23, 59, 59, 999_000, UTC), None),
        (LAST_TIMESTAMP_MS + 1, None, LAST_TIMESTAMP_MS + 1),
        (2**63 - 1, None, 2**63 - 1),
        (-(2**63), None, -(2**63)),
    ],
)
def test_every_timestamp_is_kept_though_tables_cannot_store_it_as_one(
    given: int, stored: datetime | None, out_of_range: int | None, tmp_path: Path
) -> None:
    batches = [
        build_batch(records=[Record(value=b"v")], base_timestamp=timestamp, base_offset=offset)
        for offset, timestamp in enumerate((5, given, 6))
    ]
    rows = _rows(_run(tmp_path, *batches))
    assert [row["offset"] for row in rows] == [0, 1, 2]
    assert [timestamp_ms(row) for row in rows] == [5, given, 6]
    assert (rows[1]["timestamp"], rows[1]["timestamp_out_of_range"]) == (stored, out_of_range)


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.ZSTD])
def test_a_batch_that_cannot_be_decoded_is_set_aside_and_the_others_stay(
    codec: Codec, tmp_path: Path
) -> None:
    junk = seal(read_header(_batch(1, b"x", b"y", codec=codec)), b"\x7fjunk")
    run_data = _run(tmp_path, _batch(0, b"before"), junk, _batch(3, b"after"))
    written = run_data.materialise()
    assert [row["value"] for row in run_data.rows(written)] == [b"before", b"after"]
    [each] = written
    assert each.unreadable_records == 2
    [row] = _unreadable(run_data, each)
    place = (row["topic"], row["partition"], row["held"], row["object_order"], row["position"], row["offset"])
    assert place == ("t", 0, "", 0, len(_batch(0, b"before")), 1)
    assert row["reason"].startswith(f"s/{0:020d}.log at byte ")


def _unreadable(run_data: RunData, written: WrittenFiles) -> list[dict[str, Any]]:
    assert written.unreadable is not None
    return read_table(run_data.lake, f"{FOLDER}/{written.unreadable.output.path}").to_pylist()


def test_bytes_that_changed_since_they_were_indexed_end_the_run(tmp_path: Path) -> None:
    run_data = _run(tmp_path, _batch(0, b"a"))
    (tmp_path / "source/t-0" / f"{0:020d}.log").write_bytes(_batch(0, b"b"))
    with pytest.raises(ObjectChanged, match="not those that were indexed"):
        run_data.materialise()


def _outputs(written: tuple[WrittenFiles, ...]) -> list[OutputFile]:
    return [file.output for each in written for file in each.files]


def test_the_same_run_gives_the_same_bytes_in_every_lake(tmp_path: Path) -> None:
    batches = [_batch(n, b"%d" % n * 50, codec=Codec.LZ4) for n in range(20)]
    first, second = (_run(tmp_path / name, *batches).materialise() for name in ("one", "two"))
    assert _outputs(first) == _outputs(second)


def test_large_topics_are_cut_into_files_without_losing_the_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in (
        "step.SMALLEST_FILE",
        "outcomes.CHUNK_BYTES",
        "decoding.WINDOW_BYTES",
        "table_files.GROUP_BYTES",
    ):
        monkeypatch.setattr(f"spark_jobs.pipeline.materialise.{name}", 1000)
    run_data = _run(tmp_path, *(_batch(n, b"%d" % n * 90) for n in range(100)))
    written = run_data.materialise()
    assert len(written) > 5
    assert [row["offset"] for row in run_data.rows(written)] == list(range(100))


HELD = InheritedObject(
    source="broker", path="old/t-0/x.log", role="log", size=0, sha256="", version="", referenced=True
)


def _held(run_data: RunData, place: Path, *batches: bytes, transaction: int) -> RunData:
    """The same run with batches that an earlier one held back for a transaction."""
    file = place / "source" / HELD.path
    file.parent.mkdir(parents=True)
    file.write_bytes(b"".join(batches))
    headers = scan_headers(b"".join(batches)).columns
    rows = np.zeros(headers.rows, dtype=INHERITED)
    for name in headers._fields:
        if name in (INHERITED.names or ()):
            rows[name] = getattr(headers, name)
    rows["offset"], rows["txn_first_offset"] = headers.base_offset, transaction
    digest = put_inherited(run_data.lake, InheritedRows(objects=(HELD,), rows=rows))
    return with_partition(run_data, 0, held=(digest,))


def test_batches_held_since_an_earlier_run_come_first(tmp_path: Path) -> None:
    run_data = _run(tmp_path, _batch(10, b"tonight"))
    run_data = _held(run_data, tmp_path, _batch(8, b"a", b"b"), transaction=-1)
    assert [row["offset"] for row in _rows(run_data)] == [8, 9, 10]


def test_a_late_transaction_is_published_whole_though_it_is_before_the_rest(tmp_path: Path) -> None:
    producer = {"producer_id": 1, "producer_epoch": 0, "is_transactional": True}
    marker = write_marker(
        base_offset=9, producer_id=1, control_type=ControlType.COMMIT, partition_leader_epoch=0, timestamp=1,
        producer_epoch=0, coordinator_epoch=0,
    )  # fmt: skip
    run_data = _run(tmp_path, _batch(8, b"begin", base_sequence=2, **producer), marker, _batch(10, b"rest"))
    held = _batch(3, b"late", b"too", base_sequence=0, **producer)
    run_data = with_partition(_held(run_data, tmp_path, held, transaction=8), 0, first_offset=10)
    assert [row["offset"] for row in _rows(run_data)] == [10]
    assert [row["offset"] for row in _rows(with_partition(run_data, 0, late=(8,)))] == [3, 4, 8, 10]
