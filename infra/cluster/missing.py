"""What the rig needs of this machine, and which package brings it."""

import shutil
from collections.abc import Iterator
from pathlib import Path

DEBIAN_POSTGRES = Path("/usr/lib/postgresql")
"""Where Debian and Ubuntu keep the server's programs, which are not on the PATH."""
POSTGRES_PROGRAMS = ("initdb", "postgres")


class ComponentMissing(Exception):
    """A sentence for the person at the terminal: what is missing and how to get it."""


def postgres_program(name: str) -> Path:
    """A program of the newest Postgres that is installed."""
    versions = sorted(DEBIAN_POSTGRES.glob(f"*/bin/{name}"), key=lambda path: int(path.parts[-3]))
    on_path = shutil.which(name)
    if not versions and on_path is None:
        raise ComponentMissing(f"Postgres is missing ('{name}'): apt-get install postgresql")
    return versions[-1] if versions else Path(str(on_path))


def check_components(*, s3_server: Path) -> None:
    """Raises `ComponentMissing` with everything that is missing, one line each."""
    problems = [*_missing_postgres(), *_missing_go(s3_server)]
    if problems:
        raise ComponentMissing("\n".join(problems))


def _missing_postgres() -> Iterator[str]:
    for name in POSTGRES_PROGRAMS:
        try:
            postgres_program(name)
        except ComponentMissing as missing:
            yield str(missing)


def _missing_go(s3_server: Path) -> Iterator[str]:
    if not s3_server.exists() and shutil.which("go") is None:
        yield "the S3 server is missing, and Go to build it: install Go (go.dev/dl or apt-get install golang)"
