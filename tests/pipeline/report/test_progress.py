"""What a run prints: counts by names that say what they count."""

from io import StringIO

import pytest
from rich.console import Console

from spark_jobs.flow import Step
from spark_jobs.progress import RunProgress


@pytest.mark.parametrize(
    ("step", "shown"),
    [
        (Step.ADMIT, "1,000 behind gap, 0 plain batches in transactions"),
        (Step.AUDIT, "1,000 behind gap, 0 critical"),
    ],
)
def test_a_line_of_counts(step: Step, shown: str) -> None:
    output = StringIO()
    RunProgress(Console(file=output, width=200)).done(step, {"behind_gap": 1000, "critical": 0}, 2.0)
    assert output.getvalue() == f"{step:<11}    2.0 s  {shown}\n"
