"""`python3 -m infra.cluster.env_file > .env`: the example with secrets made up for this cluster.

Runs on the machine's own Python, before anything is installed.
"""

import base64
import secrets
import sys
from pathlib import Path

EXAMPLE = Path(__file__).resolve().parents[2] / ".env.example"
PLACEHOLDER = "change-me"
SECRET_BYTES = 32


def filled(example: str) -> str:
    """The example with another secret in place of every placeholder."""
    return "".join(_filled(line) for line in example.splitlines(keepends=True))


def _filled(line: str) -> str:
    if line.startswith("AIRFLOW_FERNET_KEY="):
        key = base64.urlsafe_b64encode(secrets.token_bytes(SECRET_BYTES)).decode()
        return line.replace(PLACEHOLDER, key)
    return line.replace(PLACEHOLDER, secrets.token_urlsafe(SECRET_BYTES))


if __name__ == "__main__":
    sys.stdout.write(filled(EXAMPLE.read_text()))
