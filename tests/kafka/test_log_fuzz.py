"""Random bytes appended to a log or loaded as one give a reply, a log or a typed error."""

from collections.abc import Callable
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.kafka.errors import OnceoverError
from spark_jobs.kafka.formats.batch_builder import seal
from spark_jobs.kafka.formats.record_batch import HEADER_SIZE, read_header
from spark_jobs.kafka.producers.producer_state import AppendOrigin, TransactionVersion
from spark_jobs.kafka.producers.verdict import VERDICTS, Verdict
from spark_jobs.sample.broker.log_loader import load
from spark_jobs.sample.broker.partition_log import AppendResult, PartitionLog
from tests.kafka.broker_batches import abort_batch, compacted_batch, data_batch
from tests.kafka.log_steps import NOW, UNVERIFIED, Writer, log_bytes, mixed_transactions

SMALL = replace(UNVERIFIED, segment_bytes=2000, index_interval_bytes=64)
BATCHES = st.sampled_from((
    data_batch(),
    data_batch(txn=True, count=3),
    abort_batch(),
    compacted_batch(last_delta=2),
    data_batch(at=7) + data_batch(at=8, seq=1),
))  # fmt: skip


@st.composite
def mutated(draw: st.DrawFn, of: st.SearchStrategy[bytes], *, resealed: bool = False) -> bytes:
    """Some bytes changed, some cut off; `resealed` makes the checksum true again, so that more is read."""
    data = bytearray(draw(of))
    for _ in range(draw(st.integers(1, 4))):
        data[draw(st.integers(0, len(data) - 1))] = draw(st.integers(0, 255))
    if resealed and len(data) >= HEADER_SIZE:
        data = bytearray(seal(read_header(bytes(data)), bytes(data[HEADER_SIZE:])))
    return bytes(data[: draw(st.integers(0, len(data)) | st.just(len(data)))])


BYTES = st.one_of(st.binary(max_size=200), mutated(BATCHES), mutated(BATCHES, resealed=True))


@given(BYTES, st.sampled_from((AppendOrigin.CLIENT, AppendOrigin.COORDINATOR)))
def test_a_leader_answers_anything(records: bytes, origin: AppendOrigin) -> None:
    log = Writer(SMALL).log
    result = log.append(records, now=NOW, origin=origin, transaction_version=TransactionVersion.TV2)
    assert isinstance(result, AppendResult)
    assert result.decision.verdict in VERDICTS
    assert bool(log_bytes(log)) is (result.decision.verdict is Verdict.ACCEPTED)


@given(BYTES)
def test_a_follower_answers_anything(records: bytes) -> None:
    log = PartitionLog(SMALL, now=NOW)
    assert log.append_as_follower(records, now=NOW).decision.verdict in VERDICTS


FILES = mixed_transactions(PartitionLog(SMALL, now=NOW)).files()


@given(st.sampled_from(sorted(FILES)), st.booleans(), st.integers(0, 100), st.data())
def test_a_directory_loads_or_says_why_not(name: str, clean: bool, start: int, data: st.DataObject) -> None:
    resealed = name.endswith(".log") and data.draw(st.booleans())
    changed = data.draw(mutated(st.just(FILES[name] or b"\0"), resealed=resealed))
    assert is_loaded_or_refused(
        lambda: load(FILES | {name: changed}, clean=clean, now=NOW, config=SMALL, log_start_offset=start)
    )


@given(st.dictionaries(st.sampled_from(sorted(FILES)), st.binary(max_size=150)), st.booleans())
def test_random_files_load_or_say_why_not(files: dict[str, bytes], clean: bool) -> None:
    assert is_loaded_or_refused(lambda: load(files, clean=clean, now=NOW, config=SMALL))


def is_loaded_or_refused(loading: Callable[[], PartitionLog]) -> bool:
    try:
        log = loading()
    except OnceoverError:
        return True
    return log.log_start_offset <= log.last_stable_offset or log.first_unstable_offset is not None
