"""An ear at the door: whom this process turns to while it is watched."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

CONTACT = {"socket.connect", "socket.getaddrinfo", "socket.sendto"}


class Contacts:
    """Everybody whom this process turned to while it was watched."""

    def __init__(self) -> None:
        self.found: list[str] = []
        self._watching = False
        sys.addaudithook(self._hear)

    def _hear(self, event: str, arguments: tuple[object, ...]) -> None:
        if self._watching and event in CONTACT:
            self.found.append(f"{event} {arguments}")

    @contextmanager
    def watched(self) -> Iterator[None]:
        self._watching = True
        try:
            yield
        finally:
            self._watching = False
