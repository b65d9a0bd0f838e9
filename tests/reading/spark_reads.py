"""What the data source `kafka-log` must do in every kind of session."""

from datetime import UTC
from pathlib import Path
from typing import Any

import onceover
from tests.reading.conftest import RECORDINGS, as_truth, sample_truth
from tests.reading.test_read_log import by_partition

RECORDING = next(path for path in RECORDINGS if path.name == "oracle_A")
TRUTH = by_partition(RECORDING / "truth.jsonl")
PUSHDOWN = "spark.sql.python.filterPushdown.enabled"


def rows_of(frame: Any) -> list[dict[str, Any]]:
    """A DataFrame's rows in the form of Arrow's."""
    return [
        {
            **row.asDict(recursive=True),
            "timestamp": row["timestamp"].astimezone(UTC),
        }
        for row in frame.collect()
    ]


def check_session(session: Any, sample: Path) -> None:
    """All that the data source can, in classic Spark as over Spark Connect."""
    onceover.register(session)
    log = session.read.format("kafka-log").load(str(RECORDING / "data"))
    assert as_truth(rows_of(log)) == TRUTH
    whole = session.read.format("kafka-log").load(str(sample))
    assert as_truth(rows_of(whole)) == sample_truth()

    orders = session.read.format("kafka-log").option("isolation", "read_uncommitted").load(str(sample))
    some = orders.where("topic = 'orders' AND partition = 0 AND offset >= 3 AND offset < 5").select("value")
    assert [bytes(row["value"]) for row in some.collect()] == [b"order 3, never placed", b"order 4"]
    check_reuse(session, sample)
    check_ranges(session, sample)

    session.sql(
        "CREATE OR REPLACE TEMPORARY VIEW ended USING `kafka-log` "
        f"OPTIONS (path '{sample}', table 'transactions', columns 'outcome,first_offset')"
    )
    counted = session.sql(
        "SELECT outcome, count(*) AS n FROM ended GROUP BY outcome ORDER BY outcome"
    ).collect()
    assert [tuple(row) for row in counted] == [("aborted", 1), ("committed", 3), ("open", 1)]


def check_reuse(session: Any, sample: Path) -> None:
    """Every query on one load gets its own rows: Spark gives all scans of a load the plan made last."""
    for pushdown in ("false", "true"):
        session.conf.set(PUSHDOWN, pushdown)
        log = session.read.format("kafka-log").load(str(sample))
        orders, payments = log.where("topic = 'orders'"), log.where("topic = 'payments'")
        assert (orders.count(), log.count(), payments.count(), log.count()) == (4, 19, 15, 19)
        assert log.where("octet_length(value) >= 0").count() == log.where("value IS NOT NULL").count()
        both = log.where("topic = 'orders' AND partition = 0").union(
            log.where("topic = 'orders' AND partition = 1")
        )
        assert sorted(bytes(row["value"]) for row in both.collect()) == [
            b"order 1", b"order 2", b"order 4", b"order 5",
        ]  # fmt: skip
        assert orders.alias("a").join(log.alias("b"), ["topic", "partition", "offset"]).count() == 4
        log.createOrReplaceTempView("shared_log")
        counted = [
            session.sql(f"SELECT count(*) FROM shared_log {condition}").collect()[0][0]
            for condition in ("WHERE topic = 'orders'", "WHERE topic = 'payments' AND offset >= 0", "")
        ]
        assert counted == [4, 15, 19]
    session.conf.unset(PUSHDOWN)


def check_ranges(session: Any, sample: Path) -> None:
    """Options choose what is read for all queries of a load, filters for the one query of a load."""
    reader = session.read.format("kafka-log").option("topics", "orders")
    later = reader.option("offsets", "1,").option("timestamps", ",2026-01-01T00:00:04Z").load(str(sample))
    values = [bytes(row["value"]) for row in later.collect()]
    assert values == [b"order 2"]
    assert later.where("offset = 4").count() == 0
    session.conf.set(PUSHDOWN, "true")
    pushed = session.read.format("kafka-log").option("pushFilters", "true").load(str(sample))
    found = pushed.where("topic IN ('orders') AND timestamp > '2026-01-01 00:00:00Z' AND offset < 100")
    assert sorted(bytes(row["value"]) for row in found.collect()) == [b"order 2", b"order 4"]
    session.conf.unset(PUSHDOWN)
