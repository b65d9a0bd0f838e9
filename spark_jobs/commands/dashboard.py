"""`onceover dashboard`: the data-quality dashboard of a lake."""

import webbrowser
from pathlib import Path
from typing import Annotated

import typer

from spark_jobs.commands.failure import reported_failures
from spark_jobs.extras import Extra, require


def dashboard(
    config: Annotated[Path, typer.Option("--config", help="The configuration, a YAML file.")],
    *,
    open_it: Annotated[bool, typer.Option("--open", help="Show it in the browser.")] = False,
) -> None:
    """Update the lake's dashboard and print its location; it needs no server."""
    with reported_failures():
        require(Extra.PIPELINE, "onceover dashboard")
        from spark_jobs.config.load import load_settings
        from spark_jobs.lake.stores import open_lake
        from spark_jobs.pipeline.report.site_files import FIRST_PAGE, SiteFiles
        from spark_jobs.pipeline.report.step import report
        from spark_jobs.progress import RunProgress

        settings = load_settings(config)
        report(settings, on_progress=RunProgress().on_progress)
        lake = open_lake(settings)
    key = SiteFiles(lake).key(FIRST_PAGE)
    typer.echo(lake.url_of(key))
    page = lake.local_path(key)
    if open_it and page is not None:
        webbrowser.open(page.as_uri())
