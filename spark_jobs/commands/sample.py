"""`onceover sample`: two nights to try everything on."""

from pathlib import Path
from typing import Annotated

import typer

from spark_jobs.sample.nights import CONFIG, write_sample
from spark_jobs.sample.story import NIGHTS


def sample(directory: Annotated[Path, typer.Argument(metavar="DIR", show_default=False)]) -> None:
    """Write a sample: two nights of a shop's Kafka traffic, with all that goes wrong in real life."""
    write_sample(directory)
    for night in NIGHTS:
        typer.echo(f"onceover run --config {directory / CONFIG} --date {night}")
