"""The sample's two runs, published and reported in this process; what the metrics say about them."""

from pathlib import Path
from types import ModuleType

import pytest
from rich.console import Console

from spark_jobs.config.load import load_settings
from spark_jobs.config.settings import Settings, TopicSettings
from spark_jobs.flow import Step
from spark_jobs.progress import RunProgress
from spark_jobs.run import execute_run
from spark_jobs.sample.files import write_sample
from spark_jobs.sample.story import RUN_DATES
from tests.in_process import InProcess

TOPIC, OBJECTIVE = "visits", 93_600


def with_objective(settings: Settings) -> Settings:
    """The same lake, where the newest record of one topic may be 26 hours old."""
    topics = {**settings.topics, TOPIC: TopicSettings.model_validate({"freshness": "26h"})}
    return settings.model_copy(update={"topics": topics})


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory, great_expectations: ModuleType) -> Settings:
    """A lake with both runs in it; one of its topics has an objective for freshness."""
    directory: Path = tmp_path_factory.mktemp("run_dates")
    write_sample(directory)
    settings = with_objective(load_settings(directory / "onceover.yaml"))
    progress = RunProgress(Console(quiet=True))
    for run_date in RUN_DATES:
        execute_run(settings, run_date, until=Step.REPORT, spark=InProcess(), progress=progress)
    return settings
