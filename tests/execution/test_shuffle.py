"""A shuffle gives the same in this process and by Spark, however Spark divides it."""

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from spark_jobs.execution.options import SparkFailed
from spark_jobs.execution.shuffle import GroupRows, Note, Shuffled, TaskRows, ddl
from spark_jobs.execution.spark import Spark
from spark_jobs.kafka.errors import BadCrc
from spark_jobs.lake.errors import StoreUnavailable
from tests.in_process import InProcess

BUCKETS, BINS = 5, 3
_COLUMNS: dict[str, pa.DataType] = {
    "word": pa.string(),
    "numbers": pa.list_(pa.int64()),
    "crc": pa.uint32(),
    "kind": pa.dictionary(pa.int32(), pa.string()),
}
_OTHER_COLUMNS: dict[str, pa.DataType] = {
    "bucket": pa.int32(),
    "count": pa.int64(),
    "place": pa.struct([pa.field("x", pa.int16())]),
}
LEFT = pa.schema(_COLUMNS).insert(0, pa.field("bucket", pa.int32(), nullable=False))
RIGHT = pa.schema(_OTHER_COLUMNS)
JOINED = pa.schema([("bin", pa.int64())]).append(pa.field("line", pa.string()))

Words = list[str]
Numbers = list[int]


def _left(words: Words) -> Iterator[pa.Table | Note]:
    for word in words:
        size = len(word)
        row = {"word": word, "numbers": list(range(size)), "crc": 2**32 - 1 - size, "kind": word[:1]}
        yield pa.Table.from_pylist([{"bucket": size % BUCKETS, **row}], LEFT)
    yield Note(len(words))


def _right(numbers: Numbers) -> Iterator[pa.Table]:
    rows = [{"bucket": each % BUCKETS, "count": each, "place": {"x": each % 7}} for each in numbers]
    yield pa.Table.from_pylist(rows, RIGHT)


def _join(factor: int, bucket: int, left: pa.Table, right: pa.Table) -> pa.Table:
    assert left.schema.equals(LEFT)
    assert right.schema.equals(RIGHT)
    counts = sorted((row["count"] * factor, row["place"]["x"]) for row in right.to_pylist())
    lines = [f"{bucket} {row} {counts}" for row in sorted(map(str, left.to_pylist()))] or [
        f"{bucket} {counts}"
    ]
    return pa.table({"bin": [len(line) % BINS for line in lines], "line": lines})


def _lines(number: int, joined: pa.Table) -> tuple[int, list[str]]:
    assert joined.schema.equals(JOINED)
    lines: list[Any] = joined["line"].to_pylist()
    return number, sorted(lines)


def shuffle_words(
    spark: Spark, words: Sequence[Words], numbers: Sequence[Numbers], **more: Any
) -> Shuffled[Any]:
    left = TaskRows(function=_left, tasks=words, schema=LEFT)
    right = TaskRows(function=_right, tasks=numbers, schema=RIGHT)
    joined = GroupRows(sides=(left, right), key="bucket", function=partial(_join, 3), schema=JOINED)
    return spark.shuffle([joined], key="bin", function=_lines, **more)


def plain(found: Shuffled[Any]) -> tuple[list[Any], list[Any]]:
    return found.summaries, sorted(found.notes)


@pytest.mark.parametrize("adaptive", ["true", "false"])
@pytest.mark.parametrize("partitions", ["1", "7"])
@given(
    words=st.lists(st.lists(st.text("ab", max_size=9), max_size=5), min_size=1, max_size=4),
    numbers=st.lists(st.lists(st.integers(0, 99)), min_size=1, max_size=3),
)
@settings(max_examples=4, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_the_result_is_the_same_however_it_is_divided(
    spark: Spark, partitions: str, adaptive: str, words: list[Words], numbers: list[Numbers]
) -> None:
    spark.session.conf.set("spark.sql.shuffle.partitions", partitions)
    spark.session.conf.set("spark.sql.adaptive.enabled", adaptive)
    expected = plain(shuffle_words(InProcess(), words, numbers))

    assert plain(shuffle_words(spark, words, numbers)) == expected
    assert plain(shuffle_words(spark, words, numbers, in_driver=True)) == expected


def _fail_for_good(number: int) -> Iterable[pa.Table]:
    raise BadCrc(source="a.log", position=number, expected="0x1", found="0x2")


def _fail_for_now(number: int) -> Iterable[pa.Table]:
    raise StoreUnavailable(f"s3://bucket/{number}: no answer")


def _some(number: int) -> Iterator[pa.Table]:
    yield pa.table({"bin": [number], "line": ["a"]}, JOINED)


def _fail_in_group(number: int, _: pa.Table) -> pa.Table:
    raise BadCrc(source="b.log", position=number, expected="0x1", found="0x2")


def test_a_terminal_error_of_a_task_is_raised_as_it_was(spark: Spark) -> None:
    rows = TaskRows(function=_fail_for_good, tasks=[7, 8], schema=JOINED)
    passed_on = GroupRows(sides=(rows, rows), key="bin", function=_join, schema=JOINED)

    with pytest.raises(BadCrc) as raised:
        spark.shuffle([passed_on], key="bin", function=_lines)

    assert (raised.value.source, raised.value.position) == ("a.log", 7)


@pytest.mark.parametrize("is_last", [True, False])
def test_a_terminal_error_of_a_group_is_raised_as_it_was(spark: Spark, *, is_last: bool) -> None:
    rows = TaskRows(function=_some, tasks=[7, 8], schema=JOINED)
    failing = GroupRows(sides=(rows,), key="bin", function=_fail_in_group, schema=JOINED)

    with pytest.raises(BadCrc) as raised:
        spark.shuffle(
            [rows if is_last else failing], key="bin", function=_fail_in_group if is_last else _lines
        )

    assert (raised.value.source, raised.value.position) == ("b.log", 7)


def test_a_transient_error_can_be_tried_again(spark: Spark) -> None:
    rows = TaskRows(function=_fail_for_now, tasks=[7], schema=JOINED)

    with pytest.raises(SparkFailed, match="StoreUnavailable: s3://bucket/7: no answer"):
        spark.shuffle([rows], key="bin", function=_lines)


def test_a_type_that_spark_has_not_is_refused() -> None:
    with pytest.raises(TypeError, match=r"decimal128\(3, 1\)"):
        ddl(pa.schema([pa.field("price", pa.decimal128(3, 1))]))
