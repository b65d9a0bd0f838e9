"""The sample's two runs, published in this process; what the metrics say about them."""

from pathlib import Path
from types import ModuleType

import pytest
from rich.console import Console

from spark_jobs.config.load import load_settings
from spark_jobs.config.settings import Settings
from spark_jobs.flow import Step
from spark_jobs.progress import RunProgress
from spark_jobs.run import execute_run
from spark_jobs.sample.files import write_sample
from spark_jobs.sample.story import RUN_DATES
from tests.in_process import InProcess


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory, great_expectations: ModuleType) -> Settings:
    """A lake with both runs in it."""
    directory: Path = tmp_path_factory.mktemp("run_dates")
    write_sample(directory)
    settings = load_settings(directory / "onceover.yaml")
    progress = RunProgress(Console(quiet=True))
    for run_date in RUN_DATES:
        execute_run(settings, run_date, until=Step.PUBLISH, spark=InProcess(), progress=progress)
    return settings
