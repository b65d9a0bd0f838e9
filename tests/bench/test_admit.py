"""The benchmark of judging does not rot."""

import pytest

from spark_jobs.flow import Step
from tests.bench.admit import AdmitMeasured, count, table
from tests.bench.night import Measured


@pytest.mark.parametrize(("text", "number"), [("1600", 1600), ("300K", 300_000), ("3M", 3_000_000)])
def test_numbers_may_have_units(text: str, number: int) -> None:
    assert count(text) == number


def test_growth_is_time_per_batch_by_that_of_the_first_night() -> None:
    nights = [
        Measured(
            batches=batches,
            size=1,
            seconds={Step.INDEX: 1.0, Step.REBUILD: 1.0, Step.ADMIT: seconds},
            worker_megabytes=1,
        )
        for batches, seconds in ((100, 1.0), (400, 6.0))
    ]
    shown = table([AdmitMeasured(night=night, python_megabytes=1, jvm_megabytes=1) for night in nights])
    assert list(shown.columns[4].cells) == ["1.00x", "1.50x"]
