"""The files that workers write hold what a real consumer got, record by record."""

from pathlib import Path

import pytest

from tests.pipeline.materialise.logs import run_of
from tests.pipeline.materialise.truth import as_truth, in_order, recorded_partitions, truth_of

RECORDINGS = ["oracle_A", "oracle_D", "oracle_E", "workload_clean"]


@pytest.mark.parametrize("recording", RECORDINGS)
def test_the_files_hold_the_records_that_a_consumer_got(recording: str, tmp_path: Path) -> None:
    run_data = run_of(recorded_partitions(recording), tmp_path)
    written = run_data.materialise()
    found = [
        as_truth(each.plan.shares[0].plan.partition.topic, row)
        for each in written
        for row in run_data.rows((each,))
    ]
    assert in_order(found) == truth_of(recording)
    assert all(each.unreadable is None for each in written)
