"""What the data source `kafka-log` must do in every kind of session."""

from datetime import UTC
from pathlib import Path
from typing import Any

import onceover
from tests.reading.conftest import RECORDINGS, as_truth, read
from tests.reading.test_read_log import by_partition

RECORDING = next(path for path in RECORDINGS if path.name == "oracle_A")
TRUTH = by_partition(RECORDING / "truth.jsonl")


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
    assert as_truth(rows_of(whole)) == as_truth(read(sample).to_pylist())

    orders = session.read.format("kafka-log").option("isolation", "read_uncommitted").load(str(sample))
    some = orders.where("topic = 'orders' AND partition = 0 AND offset >= 3 AND offset < 5").select("value")
    assert [bytes(row["value"]) for row in some.collect()] == [b"order 3, never placed", b"order 4"]

    session.sql(
        "CREATE OR REPLACE TEMPORARY VIEW ended USING `kafka-log` "
        f"OPTIONS (path '{sample}', table 'transactions', columns 'outcome,first_offset')"
    )
    counted = session.sql(
        "SELECT outcome, count(*) AS n FROM ended GROUP BY outcome ORDER BY outcome"
    ).collect()
    assert [tuple(row) for row in counted] == [("aborted", 1), ("committed", 3), ("open", 1)]
