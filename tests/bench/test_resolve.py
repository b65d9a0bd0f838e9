"""The benchmark of resolving does not rot: its nights are what they claim to be, and its table adds up."""

from pathlib import Path

from spark_jobs.flow import Step
from tests.bench.resolve import Resolved, measure, table
from tests.bench.resolve_data import Transactions
from tests.in_process import InProcess


def test_a_night_holds_committed_aborted_and_open_transactions_of_both_kinds(tmp_path: Path) -> None:
    night = Transactions(transactions=60, producers=20, batches=4)

    found = measure(tmp_path, night, InProcess())

    assert (found.transactions, found.batches) == (60, 240)
    counts = {name: found.counts[name] for name in ("committed", "aborted", "ongoing", "transactions")}
    assert counts == {"committed": 36, "aborted": 4, "ongoing": 20, "transactions": 60}
    assert set(found.seconds) >= {Step.INDEX, Step.REBUILD, Step.ADMIT, Step.RESOLVE}


def test_growth_is_time_per_transaction_by_that_of_the_first_night() -> None:
    nights = [
        Resolved(
            transactions=transactions,
            batches=1,
            seconds=dict.fromkeys((Step.INDEX, Step.REBUILD, Step.ADMIT, Step.RESOLVE), seconds),
            counts={},
            worker_megabytes=1,
            python_megabytes=1,
            jvm_megabytes=1,
        )
        for transactions, seconds in ((100, 1.0), (400, 6.0))
    ]
    assert list(table(nights).columns[7].cells) == ["1.00x", "1.50x"]
