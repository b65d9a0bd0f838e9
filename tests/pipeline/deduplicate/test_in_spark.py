"""Spark's own shuffle gives what the driver alone gives."""

from pathlib import Path

import pytest

from spark_jobs.execution.spark import Spark
from spark_jobs.flow import Step
from spark_jobs.pipeline.deduplicate import step
from spark_jobs.run import execute_run
from tests.operations.backfill.lakes import QUIET
from tests.pipeline.deduplicate.lakes import Shop, counts_of, indexes, runs, states
from tests.pipeline.runs import day


@pytest.mark.parametrize("few_found_bytes", [-1, step.FEW_FOUND_BYTES])
def test_a_shuffle_of_spark_gives_the_same(
    spark: Spark, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, few_found_bytes: int
) -> None:
    shop = Shop(tmp_path)
    for number in (1, 2):
        shop.sell(number, [(n % 3, str(n % 40)) for n in range(40 * (number - 1), 50 * number)])
    settings = shop.settings()
    expected = runs(settings, 1, 2, until=Step.DEDUPLICATE)
    monkeypatch.setattr(step, "FEW_ROWS", -1)
    monkeypatch.setattr(step, "FEW_FOUND_BYTES", few_found_bytes)
    monkeypatch.setattr(step, "bucket_count", lambda *_: 4)
    other = Shop(tmp_path, "other").settings()
    found = [
        execute_run(other, day(number), until=Step.DEDUPLICATE, spark=spark, progress=QUIET)
        for number in (1, 2)
    ]
    assert [counts_of(each) for each in found] == [counts_of(each) for each in expected]
    assert counts_of(found[1])["duplicates"] == 60
    assert (states(other), indexes(other)) == (states(settings), indexes(settings))
    assert [each.done[-1].digest for each in found] == [each.done[-1].digest for each in expected]
