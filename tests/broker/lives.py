"""Failures of brokers and clients before Onceover runs: such a trial has no result."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

from confluent_kafka import KafkaException

from tests.broker.admin import BrokerRefused
from tests.broker.clients.process import ClientFailed
from tests.broker.judge import JudgeUnavailableError

NOT_OURS = (
    KafkaException,
    BrokerRefused,
    ClientFailed,
    JudgeUnavailableError,
    TimeoutError,
    subprocess.TimeoutExpired,
)
"""A client gave up, or the broker: mostly at a restart, or on a machine with much else to do."""


class LifeFailed(Exception):
    """A broker or its clients failed: there is nothing to compare Onceover with."""


@contextmanager
def lived() -> Iterator[None]:
    """A context for brokers and clients alone; assertions about their behaviour are outside of it."""
    try:
        yield
    except NOT_OURS as error:
        raise LifeFailed(f"{type(error).__name__}: {error}") from error
