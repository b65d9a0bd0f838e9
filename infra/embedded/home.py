"""The home of one embedded Airflow: its directory, its secrets, the environment that its processes get."""

import base64
import hashlib
import json
import os
import secrets
import socket
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LOOPBACK = "127.0.0.1"
USER = "admin"
OWNER_ONLY = 0o600


class EmbeddedFailed(Exception):
    """A sentence for the person at the terminal."""


@dataclass(frozen=True)
class Home:
    """An Airflow that lives in `directory`, listens on `port` and runs the lake of `config`.

    `dags` is its DAG folder, `settings` are more variables for its processes.
    """

    directory: Path
    port: int
    config: Path
    dags: Path = ROOT / "dags"
    settings: Mapping[str, str] = field(default_factory=dict)

    @property
    def url(self) -> str:
        return f"http://{LOOPBACK}:{self.port}"

    @property
    def services(self) -> Path:
        """Which processes are running."""
        return self.directory / "services.json"

    @property
    def database_file(self) -> Path:
        """Airflow's own; each configuration has another one, so that no lake shows runs of another."""
        digest = hashlib.sha256(str(self.config).encode()).hexdigest()
        return self.directory / f"airflow-{digest[:8]}.db"

    @property
    def passwords(self) -> Path:
        return self.directory / "passwords.json"

    def log(self, service: str) -> Path:
        return self.directory / f"{service}.log"

    @cached_property
    def password(self) -> str:
        """Generated on first use; only the owner can read it."""
        if not self.passwords.exists():
            write_secret(self.passwords, json.dumps({USER: secrets.token_urlsafe(12)}))
        return str(json.loads(self.passwords.read_text())[USER])

    @cached_property
    def _keys(self) -> dict[str, str]:
        """What the processes sign and encrypt with; all of them must know the same."""
        file = self.directory / "keys.json"
        if not file.exists():
            fernet = base64.urlsafe_b64encode(secrets.token_bytes(32)).decode()
            names = ("AIRFLOW__API_AUTH__JWT_SECRET", "AIRFLOW__API__SECRET_KEY")
            keys = {
                "AIRFLOW__CORE__FERNET_KEY": fernet,
                **{name: secrets.token_urlsafe(48) for name in names},
            }
            write_secret(file, json.dumps(keys))
        return dict(json.loads(file.read_text()))

    @property
    def environment(self) -> dict[str, str]:
        """This process's environment with the settings of this Airflow instead of another one's."""
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("AIRFLOW")}
        return {
            **inherited,
            **self._keys,
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}",
            "AIRFLOW_HOME": str(self.directory),
            "AIRFLOW__CORE__DAGS_FOLDER": str(self.dags),
            "AIRFLOW__CORE__PLUGINS_FOLDER": str(ROOT / "infra" / "airflow_plugin"),
            "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
            "AIRFLOW__CORE__DAGS_ARE_PAUSED_AT_CREATION": "False",
            "AIRFLOW__CORE__EXECUTOR": "LocalExecutor",
            "AIRFLOW__CORE__PARALLELISM": "4",
            "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"{self.url}/execution/",
            "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": f"{USER}:admin",
            "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": str(self.passwords),
            "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{self.database_file}",
            "AIRFLOW__API__HOST": LOOPBACK,
            "AIRFLOW__API__PORT": str(self.port),
            "AIRFLOW__API__BASE_URL": self.url,
            "AIRFLOW__API__WORKERS": "1",
            # tasks of a scheduler that died are found a minute after another one starts, not five
            "AIRFLOW__SCHEDULER__ORPHANED_TASKS_CHECK_INTERVAL": "60",
            "AIRFLOW__USAGE_DATA_COLLECTION__ENABLED": "False",
            "ONCEOVER_CONFIG": str(self.config),
            "ONCEOVER_SCHEDULE": os.environ.get("ONCEOVER_SCHEDULE", "none"),
            **self.settings,
        }


def write_secret(file: Path, text: str) -> None:
    """A file that only its owner can read, from its creation on."""
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, OWNER_ONLY)
    with os.fdopen(descriptor, "w") as opened:
        opened.write(text)


def check_port(port: int) -> None:
    """Raises if the port is in use."""
    with socket.socket() as trial:
        trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            trial.bind((LOOPBACK, port))
        except OSError as error:
            raise EmbeddedFailed(
                f"port {port} cannot be used ({error.strerror}); choose another: make up PORT=8090"
            ) from error


def free_port() -> int:
    """A port that is free now."""
    with socket.socket() as trial:
        trial.bind((LOOPBACK, 0))
        return int(trial.getsockname()[1])
