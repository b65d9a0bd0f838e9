"""`onceover sample`: two days of example data."""

from pathlib import Path
from typing import Annotated

import typer


def sample(directory: Annotated[Path, typer.Argument(metavar="DIR", show_default=False)]) -> None:
    """Write a sample: two days of a shop's Kafka traffic, with failures that are seen in production."""
    from spark_jobs.sample.files import CONFIG, write_sample
    from spark_jobs.sample.story import RUN_DATES

    write_sample(directory)
    for run_date in RUN_DATES:
        typer.echo(f"onceover run --config {directory / CONFIG} --date {run_date}")
