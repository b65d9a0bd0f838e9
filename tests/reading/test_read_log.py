"""`onceover.read_log` gives a consumer's records, all of them or an error."""

import json
import shutil
import warnings
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from spark_jobs.kafka.errors import BadCompression, BadCrc, MisplacedBatch, TornBatch
from spark_jobs.kafka.formats.control_record import ControlType
from spark_jobs.lake.errors import ObjectChanged
from spark_jobs.reading.contracts import LOG_RECORDS
from spark_jobs.reading.errors import NotKafka, TornTail, Undecided, UnknownOption
from spark_jobs.reading.isolation import Isolation
from spark_jobs.reading.read_log import read_log
from tests.reading.conftest import RECORDINGS, as_truth, read
from tests.sample.partition_writer import MIDNIGHT, PartitionWriter

TRUTH = {Isolation.READ_COMMITTED: "truth.jsonl", Isolation.READ_UNCOMMITTED: "truth_uncommitted.jsonl"}
SEGMENT = "00000000000000000000.log"
pytestmark = pytest.mark.usefixtures("either_reader")


def by_partition(path: Path) -> dict[tuple[str, int], list[dict[str, Any]]]:
    found: dict[tuple[str, int], list[dict[str, Any]]] = {}
    for record in map(json.loads, path.read_text().splitlines()):
        found.setdefault((record["topic"], record["partition"]), []).append(record)
    return found


def values(path: Path | str, **options: Any) -> list[bytes | None]:
    return read(path, columns=["value"], **options).column("value").to_pylist()


@pytest.mark.parametrize("isolation", Isolation)
@pytest.mark.parametrize("recording", RECORDINGS, ids=lambda path: path.name)
def test_records_of_a_log_directory_are_the_recorded_consumers(recording: Path, isolation: Isolation) -> None:
    found = read(recording / "data", isolation=isolation)

    assert as_truth(found.to_pylist()) == by_partition(recording / TRUTH[isolation])


def test_a_log_directory_a_partition_and_a_segment_have_the_same_records(sample: Path) -> None:
    whole = read(sample, topics=["orders"], partitions=[0])

    assert whole.num_rows == 3
    assert read(sample / "orders-0").equals(whole)
    assert read(sample / "orders-0" / SEGMENT).equals(whole)
    assert read(f"file://{sample}/orders-0").equals(whole)


def test_open_and_aborted_transactions_are_left_out_and_end_the_read(sample: Path) -> None:
    assert values(sample, topics=["orders"]) == [b"order 1", b"order 2", b"order 4", b"order 5"]
    assert b"order 6, undecided" in values(sample, topics=["orders"], isolation="read_uncommitted")


def test_a_segment_without_the_marker_of_its_transaction_is_refused(sample: Path) -> None:
    with pytest.raises(Undecided, match=r"marker .* of producer 4001 at offset 2 is not in this segment"):
        read(sample / "orders-1" / SEGMENT)
    assert len(values(sample / "orders-1" / SEGMENT, isolation="read_uncommitted")) == 3


def test_kafkas_own_topics_are_read_by_name_alone(sample: Path) -> None:
    assert "__transaction_state" not in set(read(sample).column("topic").to_pylist())
    assert set(read(sample, topics=["__transaction_state"]).column("topic").to_pylist()) == {
        "__transaction_state"
    }


def test_a_directory_with_kafkas_own_topics_alone_is_an_error_that_says_so(
    sample: Path, tmp_path: Path
) -> None:
    for partition in (0, 1):
        shutil.copytree(sample / "__transaction_state-0", tmp_path / f"__transaction_state-{partition}")
    with pytest.raises(UnknownOption, match=r"only topics of Kafka's own here.*: __transaction_state"):
        read_log(tmp_path)


def test_columns_come_in_the_order_that_was_asked_for(sample: Path) -> None:
    found = read(sample / "orders-0", columns=["value", "offset"])

    assert found.schema.names == ["value", "offset"]
    assert found.to_pylist()[0] == {"value": b"order 1", "offset": 0}


@pytest.mark.parametrize("name", LOG_RECORDS.schema.names)
def test_every_column_alone_is_as_in_the_whole_table(sample: Path, name: str) -> None:
    whole = read(sample)

    assert read(sample, columns=[name]).column(name).equals(whole.column(name))


@pytest.mark.parametrize(("first", "end"), [(None, 1), (1, None), (1, 4), (4, 5), (100, None)])
def test_offsets_bound_the_records_of_every_partition(
    sample: Path, first: int | None, end: int | None
) -> None:
    whole = read(sample).to_pylist()
    kept = [row for row in whole if (first or 0) <= row["offset"] < (end or 1000)]

    assert read(sample, offsets=(first, end)).to_pylist() == kept


@pytest.mark.parametrize("as_number", [True, False])
def test_timestamps_bound_the_records(sample: Path, as_number: bool) -> None:
    bounds = [datetime(2026, 1, 1, tzinfo=UTC) + timedelta(milliseconds=ms) for ms in (1, 3001)]
    kept = [row for row in read(sample).to_pylist() if bounds[0] <= row["timestamp"] < bounds[1]]
    asked: Any = (MIDNIGHT + 1, MIDNIGHT + 3001) if as_number else tuple(bounds)

    assert 0 < len(kept) < read(sample).num_rows
    assert read(sample, timestamps=asked).to_pylist() == kept


def test_a_bound_between_two_milliseconds_is_the_later_one(sample: Path) -> None:
    between = datetime(2026, 1, 1, 0, 0, 0, 500)  # noqa: DTZ001 -- without a time zone it is UTC

    assert values(sample / "orders-0", timestamps=(between, None)) == [b"order 2", b"order 4"]


def test_a_torn_tail_is_a_warning_that_names_the_file(sample: Path) -> None:
    with pytest.warns(
        TornTail, match=r"payments-0/00000000000000000000\.log: the last 100 bytes are no whole"
    ):
        found = read_log(sample, topics=["payments"]).read_all()
    assert found.num_rows == 15


def test_a_torn_tail_is_a_warning_at_every_read_at_the_line_of_its_caller(sample: Path) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        for _ in range(2):
            read_log(sample, topics=["payments"]).read_all()
    assert [(each.category, each.filename) for each in caught] == [(TornTail, __file__)] * 2


def damaged(sample: Path, target: Path, at: int, bits: int = 0xFF) -> Path:
    """A copy of a partition of the sample with a changed byte."""
    data = bytearray((sample / "orders-0" / SEGMENT).read_bytes())
    data[at] ^= bits
    target.mkdir(parents=True)
    (target / SEGMENT).write_bytes(data)
    return target


def test_a_wrong_checksum_is_an_error_at_its_byte(sample: Path, tmp_path: Path) -> None:
    with pytest.raises(BadCrc, match=r"orders-0/00000000000000000000\.log at byte"):
        read(damaged(sample, tmp_path / "orders-0", 90))


def test_damage_outside_of_the_range_matters_only_where_it_may_be_a_marker(
    sample: Path, tmp_path: Path
) -> None:
    place = damaged(sample, tmp_path / "orders-0", 90)

    assert b"order 4" in values(place, isolation="read_uncommitted", offsets=(3, None))
    with pytest.raises(BadCrc):
        read(place, offsets=(3, None))


def test_a_damaged_length_in_the_middle_is_no_torn_tail(sample: Path, tmp_path: Path) -> None:
    with pytest.raises(TornBatch):
        read(damaged(sample, tmp_path / "orders-0", 9))


def test_offsets_that_do_not_increase_are_an_error(tmp_path: Path) -> None:
    log = PartitionWriter()
    log.send([b"a", b"b"])
    log.send([b"c"])
    log.batches.append(log.batches[0])
    log.write(tmp_path / "orders-0")

    with pytest.raises(MisplacedBatch, match="expected an offset above 2, found 0"):
        read(tmp_path / "orders-0")


def test_a_torn_segment_in_the_middle_of_a_log_is_an_error_if_records_are_missing(tmp_path: Path) -> None:
    log = PartitionWriter()
    log.send([b"a", b"b"])
    log.send([b"c"])
    place = tmp_path / "orders-0"
    log.write(place)
    first, second = log.batches
    (place / SEGMENT).write_bytes(first + second[:30])
    (place / f"{3:020}.log").write_bytes(b"")
    with pytest.raises(TornBatch):
        read(place)

    (place / f"{2:020}.log").write_bytes(second)
    (place / f"{3:020}.log").unlink()
    with pytest.warns(TornTail):
        assert read_log(place).read_all().num_rows == 3


def test_records_that_cannot_be_decompressed_are_an_error(tmp_path: Path) -> None:
    from spark_jobs.kafka.formats.record_batch import Codec, check_batch
    from spark_jobs.kernels.crc import checksum_castagnoli

    log = PartitionWriter()
    log.send([b"a" * 200], codec=Codec.ZSTD)
    batch = bytearray(log.batches[0])
    batch[61:70] = bytes(9)
    batch[17:21] = checksum_castagnoli(bytes(batch[21:])).to_bytes(4)
    check_batch(bytes(batch))
    (tmp_path / "orders-0").mkdir()
    (tmp_path / "orders-0" / SEGMENT).write_bytes(batch)

    with pytest.raises(BadCompression, match="orders-0"):
        read(tmp_path / "orders-0")


def write_segment(path: Path, data: bytes) -> None:
    (path / "orders-0").mkdir(parents=True)
    (path / "orders-0" / SEGMENT).write_bytes(data)


def test_a_log_whose_first_batch_was_never_finished_is_empty(sample: Path, tmp_path: Path) -> None:
    write_segment(tmp_path, (sample / "orders-0" / SEGMENT).read_bytes()[:40])
    with pytest.warns(TornTail, match="the last 40 bytes"):
        assert read_log(tmp_path).read_all().num_rows == 0


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda path: None, "there is no such file or directory"),
        (lambda path: path.mkdir(), r"neither a partition's directory .* nor a log directory"),
        (lambda path: (path / "orders-0").mkdir(parents=True), "nor a log directory"),
        (lambda path: write_segment(path, b""), "without a single batch"),
        (lambda path: path.write_text("no log"), "not a Kafka log"),
        (lambda path: path.write_bytes(bytes(200)), "not a Kafka log"),
        (lambda path: write_segment(path, b"this is no batch of records"), "not a Kafka log"),
    ],
)
def test_a_path_without_a_log_is_an_error(tmp_path: Path, make: Any, said: str) -> None:
    make(tmp_path / "place")
    with pytest.raises(NotKafka, match=said):
        read(tmp_path / "place")


def test_another_kind_of_address_is_refused() -> None:
    with pytest.raises(NotKafka, match="expected a path or s3://bucket/prefix"):
        read("hdfs://cluster/data")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"topics": ["nothing"]}, "no topic nothing here; there are: __transaction_state, orders, payments"),
        ({"topics": ["orders"], "partitions": [7]}, r"no partition \[7\]"),
        ({"isolation": "read_all"}, "expected read_uncommitted or read_committed"),
        ({"columns": ["text"]}, "columns text: expected some of topic, partition, offset"),
        ({"columns": "value"}, "expected a list of names"),
        ({"columns": []}, "columns none"),
        ({"offsets": 5}, r"expected a pair \(first, end\) of offsets"),
        ({"timestamps": ("a", "b")}, "datetimes or milliseconds"),
    ],
)
def test_an_option_that_does_not_exist_is_an_error_that_lists_those_that_do(
    sample: Path, options: dict[str, Any], said: str
) -> None:
    with pytest.raises(UnknownOption, match=said):
        read(sample, **options)


def test_a_file_that_is_replaced_while_it_is_read_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, other = PartitionWriter(), PartitionWriter()
    log.send([b"a"])
    other.send([b"b"])
    log.write(tmp_path / "orders-0")
    from spark_jobs.reading import read_log as module

    planned = module.plan_pieces

    def replace_file(*given: Any) -> Iterator[Any]:
        pieces = list(planned(*given))
        other.write(tmp_path / "orders-0")
        return iter(pieces)

    monkeypatch.setattr(module, "plan_pieces", replace_file)
    with pytest.raises(ObjectChanged, match="changed while it was read"):
        read(tmp_path / "orders-0")


def test_the_log_starts_where_the_checkpoint_beside_it_says(tmp_path: Path) -> None:
    log = PartitionWriter()
    log.send([b"a", b"b", b"c"])
    log.write(tmp_path / "orders-0")
    (tmp_path / "log-start-offset-checkpoint").write_text("0\n1\norders 0 1\n")

    assert values(tmp_path) == values(tmp_path / "orders-0") == [b"b", b"c"]


def test_markers_in_later_segments_decide(tmp_path: Path) -> None:
    log = PartitionWriter()
    log.send([b"a"], producer_id=1, transactional=True)
    log.send([b"b"], producer_id=2, transactional=True)
    log.end(1, ControlType.ABORT)
    log.end(2, ControlType.COMMIT)
    place = tmp_path / "orders-0"
    log.write(place)
    (place / SEGMENT).write_bytes(b"".join(log.batches[:2]))
    (place / f"{2:020}.log").write_bytes(b"".join(log.batches[2:]))

    assert values(place) == [b"b"]
