"""Random logs, whole and damaged."""

from hypothesis import strategies as st

from spark_jobs.kafka.formats.batch_builder import build_batch
from spark_jobs.kafka.formats.record_batch import Codec
from spark_jobs.kafka.formats.records import Record
from tests.kafka.strategies import BATCHES, INT64, MARKERS, MESSAGES, WRAPPERS

CONTROL_BATCHES = st.builds(
    build_batch,
    records=st.lists(
        st.builds(Record, key=st.none() | st.binary(max_size=6), value=st.none() | st.binary(max_size=8)),
        max_size=2,
    ),
    base_timestamp=INT64,
    codec=st.sampled_from(Codec),
    is_control=st.just(True),
)
LOGS = st.lists(BATCHES | CONTROL_BATCHES | MARKERS | MESSAGES | WRAPPERS, max_size=6).map(b"".join)


@st.composite
def damaged_logs(draw: st.DrawFn) -> bytes:
    """A log with some bytes changed, cut anywhere, with zeros or junk after it."""
    data = bytearray(draw(LOGS))
    for _ in range(draw(st.integers(0, 3)) if data else 0):
        data[draw(st.integers(0, len(data) - 1))] = draw(st.integers(0, 255))
    kept = draw(st.integers(0, len(data)) | st.just(len(data)))
    tail = draw(st.sampled_from((b"", bytes(40))) | st.binary(max_size=30))
    return bytes(data[:kept]) + tail
