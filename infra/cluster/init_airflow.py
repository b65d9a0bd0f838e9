"""Brings Airflow's database up to date, makes the pool, and writes down the admin's password; then ends."""

import json
import os
import subprocess
import sys
from pathlib import Path

from infra.cluster.topology import PASSWORD_VARIABLE
from infra.embedded.home import USER, write_secret
from infra.embedded.rest import POOL

PASSWORDS_VARIABLE = "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE"


def main() -> None:
    """Safe to repeat."""
    airflow("db", "migrate")
    airflow(
        "pools", "set", str(POOL["name"]), str(POOL["slots"]), str(POOL["description"]), "--include-deferred"
    )
    write_password(Path(os.environ[PASSWORDS_VARIABLE]), os.environ[PASSWORD_VARIABLE])


def airflow(*arguments: str) -> None:
    subprocess.run([sys.executable, "-m", "airflow", *arguments], check=True)  # noqa: S603 — our own program


def write_password(file: Path, password: str) -> None:
    """A file that only its owner can read; a changed password replaces it."""
    file.unlink(missing_ok=True)
    write_secret(file, json.dumps({USER: password}))


if __name__ == "__main__":
    main()
