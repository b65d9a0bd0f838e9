"""Certificates for a broker with TLS: a CA, the broker's for 127.0.0.1, a client's, and another CA."""

import subprocess
from pathlib import Path

OPENSSL = ("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2")


class Certificates:
    """PEM files in a folder; those of the broker and of the client ada have their keys in them."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self.ca, self.other = self._authority("ca"), self._authority("other")
        self.broker = self._signed("broker", "-addext", "subjectAltName=IP:127.0.0.1")
        self.ada = self._signed("ada")

    @property
    def broker_settings(self) -> dict[str, str]:
        """Settings of a broker that has them."""
        return {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(self.broker),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.ca),
        }

    def _authority(self, name: str) -> Path:
        return self._made(name, "-subj", f"/CN={name}")

    def _signed(self, name: str, *more: str) -> Path:
        key = self.ca.with_suffix(".key")
        found = self._made(name, "-subj", f"/CN={name}", "-CA", str(self.ca), "-CAkey", str(key), *more)
        found.write_text(found.with_suffix(".key").read_text() + found.read_text() + self.ca.read_text())
        return found

    def _made(self, name: str, *arguments: str) -> Path:
        path = self._folder / f"{name}.pem"
        command = [*OPENSSL, "-keyout", str(path.with_suffix(".key")), "-out", str(path), *arguments]
        subprocess.run(command, check=True, capture_output=True)
        return path
