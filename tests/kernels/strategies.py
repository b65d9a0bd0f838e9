"""Random batches, whole and damaged, as a log could hold them."""

from hypothesis import strategies as st

from spark_jobs.protocol.batch_builder import build_batch
from spark_jobs.protocol.control_record import ControlType, write_marker
from spark_jobs.protocol.legacy_builder import write_message
from spark_jobs.protocol.record_batch import Codec, TimestampType
from spark_jobs.protocol.records import Header, Record

INT16 = st.integers(-(2**15), 2**15 - 1)
INT32 = st.integers(-(2**31), 2**31 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)
SMALL = st.binary(max_size=24)

HEADERS = st.builds(Header, key=st.text(max_size=6), value=st.none() | SMALL)
RECORDS = st.builds(
    Record,
    offset_delta=st.integers(0, 300) | INT32,
    timestamp_delta=st.integers(-1000, 1000) | INT64,
    key=st.none() | SMALL,
    value=st.none() | SMALL,
    headers=st.lists(HEADERS, max_size=3).map(tuple),
    attributes=st.integers(-128, 127),
)
DATA_BATCHES = st.builds(
    build_batch,
    records=st.lists(RECORDS, max_size=5),
    base_timestamp=st.integers(0, 2**41) | INT64,
    max_timestamp=INT64,
    base_offset=st.integers(0, 1000) | INT64,
    last_offset_delta=INT32,
    partition_leader_epoch=INT32,
    codec=st.sampled_from(Codec),
    timestamp_type=st.sampled_from((TimestampType.CREATE_TIME, TimestampType.LOG_APPEND_TIME)),
    producer_id=INT64,
    producer_epoch=INT16,
    base_sequence=st.integers(-1, 2**31 - 1) | INT32,
    is_transactional=st.booleans(),
    has_delete_horizon=st.booleans(),
)
CONTROL_BATCHES = st.builds(
    build_batch,
    records=st.lists(
        st.builds(Record, key=st.none() | st.binary(max_size=6), value=st.none() | st.binary(max_size=8)),
        max_size=2,
    ),
    base_timestamp=INT64,
    max_timestamp=INT64,
    codec=st.sampled_from(Codec),
    is_control=st.just(True),
)
MARKERS = st.builds(
    write_marker,
    base_offset=INT64,
    partition_leader_epoch=INT32,
    timestamp=INT64,
    producer_id=INT64,
    producer_epoch=INT16,
    control_type=st.sampled_from(ControlType),
    coordinator_epoch=INT32,
)
MESSAGES = st.builds(
    write_message,
    offset=INT64,
    key=st.none() | SMALL,
    value=st.none() | SMALL,
    magic=st.sampled_from((0, 1)),
    timestamp=INT64,
    attributes=st.integers(0, 127),
)
LOGS = st.lists(DATA_BATCHES | CONTROL_BATCHES | MARKERS | MESSAGES, max_size=6).map(b"".join)


@st.composite
def damaged_logs(draw: st.DrawFn) -> bytes:
    """A log with some bytes changed, cut anywhere, with zeros or junk after it."""
    data = bytearray(draw(LOGS))
    for _ in range(draw(st.integers(0, 3)) if data else 0):
        data[draw(st.integers(0, len(data) - 1))] = draw(st.integers(0, 255))
    kept = draw(st.integers(0, len(data)) | st.just(len(data)))
    tail = draw(st.sampled_from((b"", bytes(40))) | st.binary(max_size=30))
    return bytes(data[:kept]) + tail
