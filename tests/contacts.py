"""An ear at the door: whom beyond this machine a process turns to while it is watched.

Spark's own side of a process talks to its Java side at any time, from threads of its own.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

CONTACT = {"socket.connect": 1, "socket.getaddrinfo": 0, "socket.sendto": 1}
"""Which argument of these says to whom."""
HERE = ("127.", "localhost", "::1", "/")
"""How names and addresses of this machine begin."""


class Contacts:
    """Everybody whom this process turned to while it was watched."""

    def __init__(self) -> None:
        self.found: list[str] = []
        self._watching = False
        sys.addaudithook(self._hear)

    def _hear(self, event: str, arguments: tuple[object, ...]) -> None:
        if self._watching and event in CONTACT and not _is_here(arguments[CONTACT[event]]):
            self.found.append(f"{event} {arguments}")

    @contextmanager
    def watched(self) -> Iterator[None]:
        self._watching = True
        try:
            yield
        finally:
            self._watching = False


def _is_here(address: object) -> bool:
    host = address[0] if isinstance(address, tuple) else address
    return str(host).startswith(HERE)
