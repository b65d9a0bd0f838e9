"""What passes through a tap, and what of it is captured, whoever goes away."""

import asyncio
import errno
import json
import os
import ssl
import subprocess
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime, timedelta, tzinfo
from pathlib import Path
from typing import Any

import pytest

from spark_jobs.kafka.formats.record_batch import read_whole_header
from spark_jobs.lake.errors import StoreUnavailable
from spark_jobs.lake.file_store import FileStore
from spark_jobs.lake.stores import open_store
from spark_jobs.tap import capturing, journal
from spark_jobs.tap.capturing import OnFull
from spark_jobs.tap.journal import Journal, JournalEntryKind, Spool
from spark_jobs.tap.process import TapFailed, TlsFiles
from spark_jobs.tap.proxy import SocketAddress
from tests.broker.wire import Writer
from tests.s3_server import S3Server
from tests.tap.harness import HOST, RunningTap, Stub, running_tap
from tests.tap.messages import (
    API_VERSIONS,
    api_versions_response,
    markers_request,
    markers_response,
    produce_request,
    produce_response,
    request_head,
)

ONE, TWO = [("orders", 0, b"one")], [("orders", 0, b"two")]
FETCH, SASL_HANDSHAKE, SASL_AUTHENTICATE = 1, 17, 36
MARKER_BYTES = 78


def run(test: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(test, 120))


def correlation_of(request: bytes) -> int:
    return int.from_bytes(request[4:8], "big")


async def take_all(request: bytes) -> bytes:
    """The answer of a broker that takes every batch."""
    return produce_response([("orders", 0, 0, 7)], correlation=correlation_of(request))


async def until(condition: Callable[[], bool]) -> None:
    while not condition():  # noqa: ASYNC110 - what is in files has no event
        await asyncio.sleep(0.01)


def test_a_request_is_captured_before_the_broker_gets_it_and_its_answer_before_the_client(
    tmp_path: Path,
) -> None:
    async def test() -> None:
        seen: list[int] = []

        async def answer(request: bytes) -> bytes:
            seen.append(len(tap.journalled(JournalEntryKind.REQUEST)))
            return await take_all(request)

        async with Stub(answer).running() as broker, running_tap(tmp_path, broker.port) as tap:
            client = await tap.client()
            request = produce_request(ONE)
            assert await client.ask(request) == produce_response([("orders", 0, 0, 7)])
            assert len(tap.journalled(JournalEntryKind.ANSWER)) == 1
            assert broker.requests == [request]
            assert seen == [1]
            await tap.stop()
            assert tap.objects() == b"one"
            assert json.loads(tap.objects("answers.jsonl"))["base_offset"] == 7
            assert list((tmp_path / "spool").glob("*.journal")) == []

    run(test())


def test_other_frames_pass_unchanged_and_api_versions_are_capped(tmp_path: Path) -> None:
    large = os.urandom(3_000_000)

    async def answer(request: bytes) -> bytes:
        if request[:2] == API_VERSIONS.to_bytes(2, "big"):
            return api_versions_response(correlation=correlation_of(request))
        return request[4:8] + large

    async def test() -> None:
        async with Stub(answer).running() as broker, running_tap(tmp_path, broker.port) as tap:
            client = await tap.client()
            versions = request_head(API_VERSIONS, 3, 1, flexible=True)
            fetch = request_head(FETCH, 12, 2, flexible=True) + large
            await client.send(versions, fetch)
            assert await client.receive() == api_versions_response(most=12)
            assert await client.receive() == fetch[4:8] + large
            assert broker.requests == [versions, fetch]

    run(test())


def test_an_old_broker_that_refuses_the_version_of_api_versions_is_understood(tmp_path: Path) -> None:
    refusal = api_versions_response(version=0, error=35)

    async def answer(_request: bytes) -> bytes:
        return refusal

    async def test() -> None:
        async with Stub(answer).running() as broker, running_tap(tmp_path, broker.port) as tap:
            got = await (await tap.client()).ask(request_head(API_VERSIONS, 4, 1, flexible=True))
            assert got == api_versions_response(version=0, error=35, most=12)

    run(test())


def test_without_acks_there_is_no_answer_and_the_next_one_is_not_mistaken_for_it(tmp_path: Path) -> None:
    async def answer(request: bytes) -> bytes:
        return b"" if correlation_of(request) == 1 else await take_all(request)

    async def test() -> None:
        async with Stub(answer).running() as broker, running_tap(tmp_path, broker.port) as tap:
            client = await tap.client()
            await client.send(produce_request(ONE, acks=0), produce_request(TWO, correlation=2))
            assert await client.receive() == produce_response([("orders", 0, 0, 7)], correlation=2)
            await tap.stop()
            lines = [json.loads(line) for line in tap.objects("answers.jsonl").splitlines()]
            assert [line["error_code"] for line in lines] == [None, 0]
            assert tap.objects() == b"onetwo"

    run(test())


def test_the_answer_to_a_client_that_has_gone_is_kept(tmp_path: Path) -> None:
    async def test() -> None:
        gone = asyncio.Event()

        async def answer(request: bytes) -> bytes:
            await gone.wait()
            return await take_all(request)

        async with Stub(answer).running() as broker, running_tap(tmp_path, broker.port) as tap:
            client = await tap.client()
            await client.send(produce_request(ONE))
            await until(lambda: bool(broker.requests))
            client.writer.transport.abort()
            gone.set()
            await until(lambda: bool(tap.journalled(JournalEntryKind.ANSWER)))
            await tap.stop()
            assert json.loads(tap.objects("answers.jsonl"))["error_code"] == 0

    run(test())


def test_a_request_that_the_broker_never_answers_is_captured_without_an_answer(tmp_path: Path) -> None:
    async def hang_up(_request: bytes) -> None:
        return None

    async def test() -> None:
        async with Stub(hang_up).running() as broker, running_tap(tmp_path, broker.port) as tap:
            client = await tap.client()
            await client.send(produce_request(ONE))
            assert await client.is_closed()
            await tap.stop()
            assert tap.objects() == b"one"
            assert json.loads(tap.objects("answers.jsonl"))["error_code"] is None

    run(test())


def test_a_clean_end_awaits_the_answers_under_way(tmp_path: Path) -> None:
    async def test() -> None:
        asked = asyncio.Event()

        async def answer(request: bytes) -> bytes:
            await asked.wait()
            return await take_all(request)

        async with Stub(answer).running() as broker, running_tap(tmp_path, broker.port) as tap:
            client = await tap.client()
            await client.send(produce_request(ONE))
            await until(lambda: bool(broker.requests))
            ending = asyncio.create_task(tap.stop())
            await asyncio.sleep(0)
            asked.set()
            assert await client.receive() == produce_response([("orders", 0, 0, 7)])
            await ending
            assert json.loads(tap.objects("answers.jsonl"))["error_code"] == 0

    run(test())


def test_what_an_earlier_process_left_comes_before_what_is_new(tmp_path: Path) -> None:
    from tests.tap.test_journal import request

    (tmp_path / "spool").mkdir()
    left = Spool(tmp_path / "spool", "tap").new()
    request(left, 1, ONE)

    async def test() -> None:
        async with Stub(take_all).running() as broker, running_tap(tmp_path, broker.port) as tap:
            await (await tap.client()).ask(produce_request(TWO))
            await tap.stop()
            assert tap.objects() == b"onetwo"

    run(test())


def test_journals_are_closed_by_size(tmp_path: Path) -> None:
    async def test() -> None:
        async with (
            Stub(take_all).running() as broker,
            running_tap(tmp_path, broker.port, rotate_bytes=1) as tap,
        ):
            client = await tap.client()
            for _ in range(4):  # the last one goes on in a journal that is not full
                await client.ask(produce_request(ONE))
            await until(lambda: len(list((tmp_path / "root").rglob("*.batches"))) == 3)

    run(test())


def test_journals_are_closed_by_time(tmp_path: Path) -> None:
    async def test() -> None:
        async with (
            Stub(take_all).running() as broker,
            running_tap(tmp_path, broker.port, rotate_seconds=0.1) as tap,
        ):
            await (await tap.client()).ask(produce_request(ONE))
            await until(lambda: tap.objects() == b"one")

    run(test())


class Clock(datetime):
    """A clock that the test sets."""

    set_to = datetime(2026, 3, 1, 23, 59, 59, tzinfo=UTC)

    @classmethod
    def now(cls, tz: tzinfo | None = None) -> datetime:  # type: ignore[override]
        del tz
        return cls.set_to


def test_journals_are_closed_at_midnight(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A request that has its answer after midnight is in the objects of the next date, once."""
    for module in (capturing, journal):
        monkeypatch.setattr(module, "datetime", Clock)
    monkeypatch.setattr(capturing, "milliseconds", lambda: int(Clock.set_to.timestamp() * 1000))
    may_answer = asyncio.Event()

    async def answer(request: bytes) -> bytes:
        if b"two" in request:
            await may_answer.wait()
        return await take_all(request)

    async def test() -> None:
        async with (
            Stub(answer).running() as broker,
            running_tap(tmp_path, broker.port, rotate_seconds=3600) as tap,
        ):
            client, late = await tap.client(), await tap.client()
            await client.ask(produce_request(ONE))
            await late.send(produce_request(TWO))
            await until(lambda: len(broker.requests) == 2)
            assert tap.objects() == b""
            monkeypatch.setattr(Clock, "set_to", Clock.set_to + timedelta(seconds=2))
            await until(lambda: tap.objects() == b"one")
            may_answer.set()
            await late.receive()
            await client.ask(produce_request(ONE))
            await tap.stop()

    run(test())
    found = {
        folder.name: b"".join(path.read_bytes() for path in sorted(folder.rglob("*.batches")))
        for folder in (tmp_path / "root").glob("dt=*")
    }
    assert found == {"dt=2026-03-01": b"one", "dt=2026-03-02": b"twoone"}


class Reluctant(FileStore):
    """A store that fails while `is_down`."""

    is_down = True

    def adopt(self, path: Path, key: str, *, durable: bool = True) -> None:
        if self.is_down:
            raise StoreUnavailable("down")
        super().adopt(path, key, durable=durable)


def test_journals_are_closed_by_time_though_the_store_fails(tmp_path: Path) -> None:
    store = Reluctant(str(tmp_path / "root"))

    async def test() -> None:
        async with (
            Stub(take_all).running() as broker,
            running_tap(tmp_path, broker.port, store=store, rotate_seconds=0.2) as tap,
        ):
            client = await tap.client()
            for number in range(1, 4):
                await client.ask(produce_request(ONE))
                await until(lambda: len(tap.journalled(JournalEntryKind.SEALED)) == number)  # noqa: B023
            store.is_down = False
            await tap.stop()
            assert tap.objects() == b"one" * 3

    run(test())


def test_if_nothing_can_be_captured_requests_pass_and_the_gap_is_recorded(tmp_path: Path) -> None:
    async def test() -> None:
        async with (
            Stub(take_all).running() as broker,
            running_tap(tmp_path, broker.port, spool_bytes=300, on_full=OnFull.PASS) as tap,
        ):
            client = await tap.client()
            await client.ask(produce_request([("orders", 0, b"x" * 500)]))
            await client.ask(produce_request(ONE))
            await tap.stop()
            assert len(broker.requests) == 2
            assert tap.objects() == b"one"
            (missed,) = json.loads(tap.objects(".missed.json"))
            assert (missed["requests"], missed["partitions"]) == (1, 1)
            assert tap.tap.capturing.statistics.missed == 1

    run(test())


MARKER = markers_request([(9, 4, True, {"orders": [0, 1]}), (10, 4, False, {"orders": [0]})])


async def take_markers(request: bytes) -> bytes:
    """A broker that refuses the marker of one partition."""
    if request[:2] == b"\0\0":
        return await take_all(request)
    return markers_response({9: [("orders", 0, 0), ("orders", 1, 6)], 10: [("orders", 0, 0)]})


def test_markers_are_captured_where_the_broker_takes_them(tmp_path: Path) -> None:
    async def test() -> None:
        async with Stub(take_markers).running() as broker, running_tap(tmp_path, broker.port) as tap:
            client, coordinator = await tap.client(), await tap.client()
            await client.ask(produce_request(ONE))
            assert await coordinator.ask(MARKER) == await take_markers(MARKER)
            await client.ask(produce_request(TWO))
            await tap.stop()
            assert broker.requests[1] == MARKER
            found = tap.objects()
            assert (found[:3], found[-3:]) == (b"one", b"two")
            first, second = found[3 : 3 + MARKER_BYTES], found[3 + MARKER_BYTES : -3]
            assert [read_whole_header(each).producer_id for each in (first, second)] == [9, 10]
            assert read_whole_header(tap.objects(".refused")).producer_id == 9

    run(test())


def full(*_arguments: object) -> None:
    raise OSError(errno.ENOSPC, "no space left")


def test_an_answer_that_cannot_be_kept_does_not_reach_the_client(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A batch of a transaction without an answer is left out: the client must send it again."""

    async def test() -> None:
        async with Stub(take_all).running() as broker, running_tap(tmp_path, broker.port) as tap:
            client = await tap.client()
            with monkeypatch.context() as patched:
                patched.setattr(Journal, "answer", full)
                await client.send(produce_request(ONE, transactional_id="t"))
                assert await client.is_closed()
            await (await tap.client()).ask(produce_request(ONE, transactional_id="t"))
            await tap.stop()
            assert (tap.objects(), tap.objects(".refused")) == (b"one", b"one")

    run(test())


def test_a_marker_that_passed_a_full_disk_is_captured_before_what_follows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test() -> None:
        async with (
            Stub(take_markers).running() as broker,
            running_tap(tmp_path, broker.port, on_full=OnFull.PASS) as tap,
        ):
            client, coordinator = await tap.client(), await tap.client()
            await client.ask(produce_request(ONE))
            with monkeypatch.context() as patched:
                patched.setattr(Journal, "request", full)
                await client.ask(produce_request([("orders", 0, b"missed")]))
                await coordinator.ask(MARKER)
            await client.ask(produce_request(TWO))
            await tap.stop()
            found = tap.objects()
            assert (found[:3], found[-3:], len(found)) == (b"one", b"two", 6 + 2 * MARKER_BYTES)
            assert len(tap.objects(".refused")) == MARKER_BYTES

    run(test())


def test_a_marker_that_passed_a_full_disk_is_before_what_was_answered_after_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A batch of the next transaction that arrived before the marker; and one marker without an answer."""
    may_answer = asyncio.Event()

    async def answer(request: bytes) -> bytes | None:
        if request[:2] == b"\0\0":
            await may_answer.wait()
            return await take_all(request)
        return await take_markers(request) if correlation_of(request) == 1 else None

    unanswered = markers_request([(11, 4, True, {"orders": [0]})], correlation=2)

    async def test() -> None:
        async with (
            Stub(answer).running() as broker,
            running_tap(tmp_path, broker.port, on_full=OnFull.PASS) as tap,
        ):
            client, coordinator = await tap.client(), await tap.client()
            await client.send(produce_request(TWO, transactional_id="t"))
            await until(lambda: len(broker.requests) == 1)
            with monkeypatch.context() as patched:
                patched.setattr(Journal, "request", full)
                await coordinator.ask(MARKER)
                await coordinator.send(unanswered)
                assert await coordinator.is_closed()
            may_answer.set()
            await client.receive()
            tap.tap.capturing.rotate()
            await until(lambda: bool(tap.objects()))
            found = tap.objects()
            assert (found[-3:], len(found)) == (b"two", 3 + 3 * MARKER_BYTES)
            with monkeypatch.context() as patched:
                patched.setattr(Journal, "request", full)
                await (await tap.client()).ask(MARKER)
            await tap.stop()
            assert len(tap.objects()) == 3 + 5 * MARKER_BYTES

    run(test())


def test_if_nothing_can_be_captured_clients_wait(tmp_path: Path) -> None:
    store = Reluctant(str(tmp_path / "root"))

    async def test() -> None:
        async with (
            Stub(take_all).running() as broker,
            running_tap(tmp_path, broker.port, store=store, spool_bytes=500, rotate_bytes=1) as tap,
        ):
            client = await tap.client()
            await client.ask(produce_request([("orders", 0, b"x" * 300)]))
            await client.send(produce_request([("orders", 0, b"y" * 300)], correlation=2))
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(client.reader.readexactly(1), 0.5)
            assert len(broker.requests) == 1
            store.is_down = False
            await client.receive()
            await tap.stop()
            assert tap.objects() == b"x" * 300 + b"y" * 300

    run(test())


def test_a_request_larger_than_the_memory_passes_alone(tmp_path: Path) -> None:
    async def test() -> None:
        async with (
            Stub(take_all).running() as broker,
            running_tap(tmp_path, broker.port, memory_bytes=1000) as tap,
        ):
            clients = [await tap.client() for _ in range(5)]
            request = produce_request([("orders", 0, os.urandom(50_000))])
            await asyncio.gather(*(client.ask(request) for client in clients))
            assert broker.requests == [request] * 5

    run(test())


def test_a_client_that_stops_inside_a_request_does_not_keep_the_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("spark_jobs.tap.proxy.STALLED_SECONDS", 0.2)

    async def test() -> None:
        async with Stub(take_all).running() as broker, running_tap(tmp_path, broker.port) as tap:
            good, bad = await tap.client(), await tap.client()
            bad.writer.write((2**29).to_bytes(4, "big") + produce_request(ONE))
            await until(lambda: tap.tap._memory.left == 0)
            assert await good.ask(produce_request(ONE))
            assert await bad.is_closed()

    run(test())


@pytest.mark.parametrize(
    "frame",
    [
        request_head(0, 13, 1, flexible=True) + bytes(40),
        request_head(17, 0, 1, flexible=False),
        produce_request(ONE)[:-6],
        b"GET ",
    ],
    ids=["Produce 13", "SaslHandshake 0", "cut", "HTTP"],
)
def test_what_the_tap_does_not_understand_ends_its_connection_alone(tmp_path: Path, frame: bytes) -> None:
    async def test() -> None:
        async with Stub(take_all).running() as broker, running_tap(tmp_path, broker.port) as tap:
            good, bad = await tap.client(), await tap.client()
            await bad.send(frame)
            assert await bad.is_closed()
            assert await good.ask(produce_request(ONE))
            assert len(broker.requests) == 1

    run(test())


def test_nothing_is_captured_of_a_client_that_has_not_logged_in(tmp_path: Path) -> None:
    """A listener with SASL closes such a connection without an answer; the tap learns that it has SASL."""
    replies = [b"", b"r=nonce", b"v=proof"]

    async def answer(request: bytes) -> bytes | None:
        correlation = request[4:8]
        if request[:2] == b"\0\0":
            return await take_all(request)
        if request[:2] == SASL_HANDSHAKE.to_bytes(2, "big"):
            return correlation + bytes(2 + 4)
        return correlation + bytes(1 + 2 + 1) + bytes([len(replies[-1]) + 1]) + replies.pop() + bytes(9)

    handshake = request_head(SASL_HANDSHAKE, 1, 1, flexible=False) + b"\0\5PLAIN"
    step = request_head(SASL_AUTHENTICATE, 2, 2, flexible=True) + b"\1\0"

    async def test() -> None:
        async with Stub(answer).running() as broker, running_tap(tmp_path, broker.port) as tap:
            replies.reverse()
            good, bad, other = [await tap.client() for _ in range(3)]
            for frame in (handshake, step, produce_request(ONE)):
                assert await good.ask(frame)
            await bad.send(produce_request(TWO, acks=0))
            assert await bad.is_closed()
            for frame in (handshake, step):
                await other.ask(frame)
            await other.send(MARKER)
            assert await other.is_closed()
            await tap.stop()
            assert (tap.objects(), tap.objects(".refused")) == (b"one", b"")

    run(test())


def metadata(port: int) -> bytes:
    return bytes(
        Writer(flexible=False).put("i", 1).count(1).put("i", 1).text(HOST).put("i", port).text(None).out
    )


def test_a_listener_that_advertises_another_address_is_refused(tmp_path: Path) -> None:
    async def answer(_request: bytes) -> bytes:
        return metadata(9092)

    async def started(tap: RunningTap) -> None:
        await tap.task

    async def test() -> None:
        async with Stub(answer).running() as broker:
            wrong = SocketAddress(host=HOST, port=9094)
            with pytest.raises(TapFailed, match=r"advertises 127.0.0.1:9092, not 127.0.0.1:9094"):
                async with running_tap(tmp_path, broker.port, advertise=wrong) as tap:
                    await started(tap)
            right = SocketAddress(host=HOST, port=9092)
            async with running_tap(tmp_path, broker.port, advertise=right) as tap:
                await tap.client()

    run(test())


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> TlsFiles:
    """One for 127.0.0.1, its own CA."""
    folder = tmp_path_factory.mktemp("tls")
    key, cert = folder / "key.pem", folder / "cert.pem"
    command = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "rsa:2048",
        "-nodes",
        "-days",
        "2",
        "-subj",
        "/CN=127.0.0.1",
    ]
    command += ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out", str(cert)]
    subprocess.run(command, check=True, capture_output=True)
    return TlsFiles(cert=cert, key=key, ca=cert)


def test_tls_on_both_sides_with_certificates_of_both(tmp_path: Path, certificate: TlsFiles) -> None:
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(str(certificate.cert), str(certificate.key))
    server.load_verify_locations(str(certificate.ca))
    server.verify_mode = ssl.CERT_REQUIRED
    mine = ssl.create_default_context(cafile=str(certificate.ca))
    mine.load_cert_chain(str(certificate.cert), str(certificate.key))

    async def test() -> None:
        async with (
            Stub(take_all, tls=server).running() as broker,
            running_tap(tmp_path, broker.port, client_tls=certificate, broker_tls=certificate) as tap,
        ):
            client = await tap.client(mine)
            assert await client.ask(produce_request(ONE)) == produce_response([("orders", 0, 0, 7)])
            client.writer.close()
            without = await tap.client(ssl.create_default_context(cafile=str(certificate.ca)))
            with pytest.raises((ssl.SSLError, ConnectionError, asyncio.IncompleteReadError)):
                await without.ask(produce_request(TWO))
            assert len(broker.requests) == 1

    run(test())


def test_objects_are_uploaded_to_a_bucket(tmp_path: Path, s3_server: S3Server) -> None:
    store = open_store(f"s3://{s3_server.new_bucket()}/raw", s3_server.settings)

    async def test() -> None:
        async with (
            Stub(take_all).running() as broker,
            running_tap(tmp_path, broker.port, store=store) as tap,
        ):
            await (await tap.client()).ask(produce_request(ONE))
            await tap.stop()

    run(test())
    (key,) = [each.key for each in store.list() if each.key.endswith(".batches")]
    assert store.read(key) == b"one"
