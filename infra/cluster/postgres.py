"""A Postgres of the rig's own: a fresh directory, loopback, a password made up for each start."""

import os
import pwd
import secrets
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import create_engine, text

from infra.cluster.service import Service, ServiceFailed, running
from infra.cluster.topology import AIRFLOW_DATABASE, DATABASE_USER, database_url
from infra.embedded.home import LOOPBACK, free_port, write_secret

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


CATALOG_SQL = Path(__file__).with_name("catalog.sql")
SERVICE_USER = "postgres"
"""Postgres refuses to run as root; Debian's package brings this user."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Postgres:
    """A running server."""

    port: int
    password: str

    def url(self, database: str) -> str:
        return database_url(password=self.password, host=LOOPBACK, port=self.port, database=database)


@contextmanager
def running_postgres(log: Path) -> Iterator[Postgres]:
    """Both databases of the cluster on a free port; all of it is gone after the block."""
    directory = Path(tempfile.mkdtemp(prefix="onceover-postgres-"))  # where its own user may go
    user = SERVICE_USER if os.getuid() == 0 else None
    server = Postgres(port=free_port(), password=secrets.token_urlsafe(24))
    try:
        _initialise(directory, server.password, user)
        service = Service(
            name="Postgres",
            command=_command(directory, server.port),
            log=log,
            port=server.port,
            user=user,
            stop=signal.SIGINT,  # at once, without waiting for clients
        )
        with running(service):
            _make_databases(server)
            yield server
    finally:
        shutil.rmtree(directory)


def _initialise(directory: Path, password: str, user: str | None) -> None:
    secret = directory / "password"
    write_secret(secret, password)
    if user is not None:
        owner = pwd.getpwnam(user)
        for path in (directory, secret):
            os.chown(path, owner.pw_uid, owner.pw_gid)
    program, data = str(postgres_program("initdb")), str(directory / "data")
    secure = ("--auth=scram-sha-256", f"--pwfile={secret}")
    done = subprocess.run(  # noqa: S603 — Postgres' own program
        [program, "-D", data, "-U", DATABASE_USER, *secure, "-E", "UTF8", "--locale=C", "--no-sync"],
        capture_output=True,
        text=True,
        check=False,
        user=user,
        group=user,
        cwd=directory,
    )
    if done.returncode:
        raise ServiceFailed(f"initdb failed: {done.stderr.strip()}")


def _command(directory: Path, port: int) -> list[str]:
    data, program = str(directory / "data"), str(postgres_program("postgres"))
    return [program, "-D", data, "-h", LOOPBACK, "-p", str(port), "-k", str(directory), "-c", "fsync=off"]


def _make_databases(server: Postgres) -> None:
    """What the image's POSTGRES_DB and the mounted script do."""
    engine = create_engine(server.url("postgres"), isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        for statement in (f"CREATE DATABASE {AIRFLOW_DATABASE}", CATALOG_SQL.read_text()):
            connection.execute(text(statement))
    engine.dispose()
