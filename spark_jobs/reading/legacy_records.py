"""Records of magic 0 and 1, read one by one, in the form in which kernels find those of magic 2."""

import numpy as np

from spark_jobs.kafka.formats.records import LogRecord
from spark_jobs.kernels.memory import as_bytes
from spark_jobs.kernels.record_buffers import FoundRecords, RecordRows, Totals


def legacy_found(records: list[tuple[int, LogRecord]]) -> FoundRecords:
    """The records as kernels find them, which have no headers."""
    keys = [record.key for _, record in records]
    values = [record.value for _, record in records]
    sizes = np.array([-1 if part is None else len(part) for part in (*keys, *values)], dtype=np.int32)
    ends = np.cumsum(np.maximum(sizes, 0), dtype=np.int64)
    starts, count = ends - np.maximum(sizes, 0), len(records)
    rows = RecordRows(
        batch=np.array([batch for batch, _ in records], dtype=np.int32),
        offset=np.array([record.offset for _, record in records], dtype=np.int64),
        timestamp=np.array([record.timestamp for _, record in records], dtype=np.int64),
        sequence=np.array([record.sequence for _, record in records], dtype=np.int32),
        key_start=starts[:count],
        key_size=sizes[:count],
        value_start=starts[count:],
        value_size=sizes[count:],
        headers_start=np.zeros(count, dtype=np.int64),
        header_count=np.zeros(count, dtype=np.int32),
    )
    arena = as_bytes(b"".join(part for part in (*keys, *values) if part is not None))
    key_bytes = int(np.maximum(rows.key_size, 0).sum(dtype=np.int64))
    return FoundRecords(arena, rows, Totals(count, key_bytes, arena.size - key_bytes, 0, 0, 0))
