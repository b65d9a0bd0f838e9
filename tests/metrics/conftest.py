"""The sample's two nights, published in this process; what the metrics say about them."""

from pathlib import Path
from types import ModuleType

import pytest
from rich.console import Console

from spark_jobs.config.load import load_settings
from spark_jobs.config.settings import Settings
from spark_jobs.flow import Step
from spark_jobs.reporting.narrator import Narrator
from spark_jobs.run import run_night
from spark_jobs.sample.nights import write_sample
from spark_jobs.sample.story import NIGHTS
from tests.in_process import InProcess


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory, great_expectations: ModuleType) -> Settings:
    """A lake with both nights in it."""
    directory: Path = tmp_path_factory.mktemp("nights")
    write_sample(directory)
    settings = load_settings(directory / "onceover.yaml")
    narrator = Narrator(Console(quiet=True))
    for night in NIGHTS:
        run_night(settings, night, until=Step.PUBLISH, spark=InProcess(), narrator=narrator)
    return settings
