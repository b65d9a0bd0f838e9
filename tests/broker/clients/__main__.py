"""One client: `python -m tests.broker.clients KIND NAME ADDRESS SEED`; it stops when its input ends."""

import sys
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

from tests.broker.clients.copying import CopyingClient
from tests.broker.clients.journal import PrintedJournal
from tests.broker.clients.librdkafka import (
    ForgetfulClient,
    IdempotentClient,
    TransactionalClient,
    ZombieClient,
)
from tests.broker.clients.workplace import Workplace

KINDS: dict[str, Callable[[Workplace, str], Any]] = {
    "transactional": TransactionalClient,
    "undecided": partial(TransactionalClient, commits=0.5),
    "idempotent": IdempotentClient,
    "forgetful": ForgetfulClient,
    "abandoned": partial(ForgetfulClient, timeout_ms=10_000),
    "zombie": ZombieClient,
    "copying": CopyingClient,
}


def main(kind: str, name: str, address: str, seed: str) -> None:
    work = Workplace(address=address, seed=int(seed), journal=PrintedJournal())
    threading.Thread(target=_await_end, args=(work,), daemon=True).start()
    KINDS[kind](work, name).run()


def _await_end(work: Workplace) -> None:
    sys.stdin.read()
    work.stopped.set()


if __name__ == "__main__":
    main(*sys.argv[1:])
