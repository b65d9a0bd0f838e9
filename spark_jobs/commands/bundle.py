"""`onceover bundle`: the package as an archive that Spark unpacks for its executors."""

from pathlib import Path
from typing import Annotated

import typer

from spark_jobs.commands.failure import reported_failures


def bundle(
    to: Annotated[Path, typer.Argument(help="The archive to write, such as onceover.zip.")],
) -> None:
    """Write this version of the package as a zip archive for `spark.archives`.

    Executors need the libraries of requirements.txt in an image or environment of their own; the bundle
    brings Onceover itself, in the version of the driver.
    """
    from spark_jobs.operations.bundle import write_bundle

    with reported_failures():
        files = write_bundle(to)
    typer.echo(f"{to}: {files} files")
    typer.echo("spark:")
    typer.echo("  conf:")
    typer.echo(f'    spark.archives: "{to.resolve()}#onceover"')
    typer.echo("    spark.executorEnv.PYTHONPATH: ./onceover")
