"""Random header rows that interact: few producers, few epochs, sequences near the expected ones."""

from hypothesis import strategies as st

from spark_jobs.kafka.producers.producer_state import AppendOrigin, TransactionVersion
from spark_jobs.kafka.producers.sequence import MAX_SEQUENCE
from spark_jobs.kafka.producers.verdict import Rules
from tests.cases.batch_rows import T0, abort, commit, data, empty_control

_PRODUCERS = st.sampled_from((-1, 0, 1, 2))
_EPOCHS = st.sampled_from((-1, 0, 0, 0, 1, 1, 2, 32766, 32767))
_SEQUENCES = st.integers(0, 9) | st.sampled_from((-1, MAX_SEQUENCE - 1, MAX_SEQUENCE))
_COORDINATORS = st.integers(0, 2)
_TIMES = st.integers(T0, T0 + 20)

DATA = st.builds(
    data,
    pid=_PRODUCERS,
    epoch=_EPOCHS,
    seq=_SEQUENCES,
    count=st.integers(1, 3),
    txn=st.booleans(),
    ts=_TIMES,
)
ROWS = st.one_of(
    DATA,
    DATA,
    st.builds(data, pid=_PRODUCERS, seq=_SEQUENCES, count=st.integers(0, 2), records=st.integers(0, 2)),
    st.builds(commit, pid=_PRODUCERS, epoch=_EPOCHS, coord=_COORDINATORS, ts=_TIMES),
    st.builds(abort, pid=_PRODUCERS, epoch=_EPOCHS, coord=_COORDINATORS, ts=_TIMES),
    st.builds(empty_control, pid=_PRODUCERS, epoch=_EPOCHS),
)
ANY_RULES = st.builds(
    Rules,
    origin=st.sampled_from(AppendOrigin),
    transaction_version=st.sampled_from(TransactionVersion),
    enforce_open_transaction=st.booleans(),
    marker_version=st.none() | st.sampled_from(TransactionVersion),
)
