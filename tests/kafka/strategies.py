"""Random values of Kafka's formats, and ways to damage their bytes."""

from hypothesis import strategies as st

from spark_jobs.kafka.formats.batch_builder import build_batch
from spark_jobs.kafka.formats.checkpoints import EpochEntry, OffsetCheckpointEntry
from spark_jobs.kafka.formats.control_record import ControlType, write_marker
from spark_jobs.kafka.formats.indexes import AbortedTxn
from spark_jobs.kafka.formats.legacy import write_message
from spark_jobs.kafka.formats.record_batch import Codec, TimestampType
from spark_jobs.kafka.formats.records import Header, Record
from spark_jobs.kafka.producers.producer_state import BatchMetadata, ProducerStateEntry
from tests.kafka.wrappers import write_wrapper

INT8 = st.integers(-(2**7), 2**7 - 1)
INT16 = st.integers(-(2**15), 2**15 - 1)
INT32 = st.integers(-(2**31), 2**31 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)
OFFSETS = st.integers(0, 2**63 - 1)
NULLABLE = st.none() | st.binary(max_size=40)
CODECS = st.sampled_from(Codec)
TIMESTAMP_TYPES = st.sampled_from((TimestampType.CREATE_TIME, TimestampType.LOG_APPEND_TIME))

HEADERS = st.builds(Header, key=st.text(max_size=8), value=NULLABLE)
RECORDS = st.builds(
    Record,
    offset_delta=INT32,
    timestamp_delta=INT64,
    key=NULLABLE,
    value=NULLABLE,
    headers=st.lists(HEADERS, max_size=3).map(tuple),
    attributes=INT8,
)
BATCHES = st.builds(
    build_batch,
    records=st.lists(RECORDS, max_size=6),
    base_timestamp=INT64,
    max_timestamp=INT64,
    base_offset=INT64,
    last_offset_delta=INT32,
    partition_leader_epoch=INT32,
    codec=CODECS,
    timestamp_type=TIMESTAMP_TYPES,
    producer_id=INT64,
    producer_epoch=INT16,
    base_sequence=INT32,
    is_transactional=st.booleans(),
    is_control=st.booleans(),
    has_delete_horizon=st.booleans(),
)
MARKERS = st.builds(
    write_marker,
    base_offset=INT64,
    partition_leader_epoch=INT32,
    timestamp=INT64,
    producer_id=INT64,
    producer_epoch=INT16,
    control_type=st.sampled_from((ControlType.ABORT, ControlType.COMMIT)),
    coordinator_epoch=INT32,
)
MESSAGES = st.builds(
    write_message, offset=INT64, key=NULLABLE, value=NULLABLE, magic=st.sampled_from((0, 1)), timestamp=INT64
)
WRAPPERS = st.builds(
    write_wrapper,
    st.lists(MESSAGES, max_size=4).map(b"".join),
    offset=INT64,
    codec=st.sampled_from((Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD)),
    magic=st.sampled_from((0, 1)),
    timestamp=INT64,
    attributes=st.sampled_from((0, 8)),
)
ENTRIES = st.builds(
    ProducerStateEntry,
    producer_id=INT64,
    producer_epoch=INT16,
    coordinator_epoch=INT32,
    last_timestamp=INT64,
    current_txn_first_offset=st.none() | OFFSETS,
    batches=st.lists(
        st.builds(
            BatchMetadata, last_sequence=INT32, last_offset=OFFSETS, offset_delta=INT32, timestamp=INT64
        ),
        max_size=2,
    ).map(tuple),
)
ABORTED_TXNS = st.builds(
    AbortedTxn, producer_id=INT64, first_offset=INT64, last_offset=INT64, last_stable_offset=INT64
)
EPOCH_ENTRIES = st.builds(EpochEntry, epoch=INT32, start_offset=INT64)
OFFSET_ENTRIES = st.builds(
    OffsetCheckpointEntry,
    topic=st.text("abcXYZ019._-", min_size=1, max_size=20),
    partition=INT32,
    offset=INT64,
)


@st.composite
def damaged(draw: st.DrawFn, originals: st.SearchStrategy[bytes]) -> bytes:
    """Bytes of `originals` with some overwritten, removed, repeated or added; sometimes anything at all."""
    data = bytearray(draw(originals | st.binary(max_size=100)))
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(data)))
        stop = start + draw(st.sampled_from((0, 1, 1, 1, 2, 4, 8, 40)))
        added = draw(st.sampled_from((b"", b"\0", b"\x7f\xff\xff\xff", b"\xff" * 8)) | st.binary(max_size=8))
        data[start:stop] = added
    return bytes(data)
