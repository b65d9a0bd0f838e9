"""What a night brings to a captured partition, before anybody has judged it."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from spark_jobs.config.settings import Settings
from spark_jobs.protocol.topic_partition import TopicPartition
from spark_jobs.storage.manifest import ManifestEntry
from spark_jobs.storage.object_store import ObjectStore


@dataclass(frozen=True, slots=True, kw_only=True)
class CapturedNight:
    """One captured partition: index files of tonight, the objects behind them, its state at the start."""

    partition: TopicPartition
    keys: tuple[str, ...]
    objects: tuple[ManifestEntry, ...]
    state: str


JudgedRows = tuple[pa.RecordBatch, npt.NDArray[np.int8]]
"""Rows of the index in the order of their judgement, and the numbers of their verdicts."""

Judge = Callable[[CapturedNight, ObjectStore, Settings, pa.Table | None], Iterator[JudgedRows]]
"""Judges a whole night, with a table of markers if there is one already, which itself is not among the rows.

What is not decided when the night is over comes last.
"""
