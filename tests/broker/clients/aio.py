"""A client by aiokafka: transactions, each in a producer of one codec."""

import asyncio
import logging

from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError

from tests.broker.clients.journal import Outcome, Sent
from tests.broker.clients.workplace import CODECS, Workplace, some_headers, some_key, some_records

STOP_SECONDS = 20.0
for name in ("aiokafka", "asyncio"):
    logging.getLogger(name).setLevel(logging.CRITICAL + 1)


class AioClient:
    """Commits and aborts; whatever fails ends this producer's life."""

    def __init__(self, work: Workplace, name: str) -> None:
        self.work, self.name = work, name
        self.random = work.random(name)
        self.number = 0

    def run(self) -> None:
        asyncio.run(self._run())

    async def _run(self) -> None:
        while not self.work.stopped.is_set():
            try:
                await self._life()
            except (KafkaError, TimeoutError, AssertionError):
                await asyncio.sleep(0.5)

    async def _life(self) -> None:
        codec = self.random.choice(CODECS)
        producer = AIOKafkaProducer(
            bootstrap_servers=self.work.address,
            transactional_id=self.name,
            compression_type=None if codec == "none" else codec,
        )
        try:
            await asyncio.wait_for(producer.start(), STOP_SECONDS)
            for _ in range(10):
                if self.work.stopped.is_set():
                    return
                await self._transaction(producer)
        finally:
            await asyncio.wait_for(producer.stop(), STOP_SECONDS)

    async def _transaction(self, producer: AIOKafkaProducer) -> None:
        self.number += 1
        name = f"{self.name}.{self.number}"
        records, commits = some_records(self.random, name), self.random.random() < 0.7
        try:
            await asyncio.wait_for(self._send(producer, records, commits=commits), STOP_SECONDS)
        except BaseException:
            self.work.journal.note(name, records, Outcome.UNKNOWN)
            raise
        self.work.journal.note(name, records, Outcome.COMMITTED if commits else Outcome.ABORTED)

    async def _send(self, producer: AIOKafkaProducer, records: list[Sent], *, commits: bool) -> None:
        await producer.begin_transaction()
        for topic, partition, value in records:
            await producer.send_and_wait(
                topic,
                value,
                key=some_key(self.random),
                partition=partition,
                headers=[(name, held) for name, held in some_headers(self.random) if isinstance(held, bytes)],
            )
        await (producer.commit_transaction() if commits else producer.abort_transaction())
