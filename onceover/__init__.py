"""Kafka logs in Python: records, headers and a broker's verdicts, as Arrow.

>>> import onceover
>>> reader = onceover.read_log("shop", topics=["orders"], columns=["partition", "offset", "value"])
>>> reader.read_all().to_pylist()[0]
{'partition': 0, 'offset': 0, 'value': b'order 1'}

`read_log` streams records, `scan_log` gives tables of what headers contain, `admit` judges batches.
`register(spark)` adds the data source `kafka-log` to a Spark session.
"""

from typing import TYPE_CHECKING, Any

from spark_jobs.extras import Extra, ExtraMissing
from spark_jobs.kafka.errors import CorruptData, OnceoverError
from spark_jobs.lake.errors import StorageError
from spark_jobs.reading.admit import Admitted, admit
from spark_jobs.reading.errors import NotKafka, TierEnds, TornTail, Undecided, UnknownOption
from spark_jobs.reading.read_log import read_log
from spark_jobs.reading.scan_log import LogScan, scan_log

if TYPE_CHECKING:
    from spark_jobs.reading.spark_source import KafkaLog, register

__version__ = "0.1.0"
__all__ = [
    "Admitted",
    "CorruptData",
    "ExtraMissing",
    "KafkaLog",
    "LogScan",
    "NotKafka",
    "OnceoverError",
    "StorageError",
    "TierEnds",
    "TornTail",
    "Undecided",
    "UnknownOption",
    "__version__",
    "admit",
    "read_log",
    "register",
    "scan_log",
]


def __getattr__(name: str) -> Any:
    """The names that need Spark: they are imported when they are used."""
    if name in {"KafkaLog", "register"}:
        try:
            from spark_jobs.reading import spark_source  # noqa: PLC0415 — an extra
        except ModuleNotFoundError as missing:
            absent = missing.name or "pyspark"
            raise ExtraMissing(Extra.PIPELINE, "the data source kafka-log", (absent,)) from None
        return getattr(spark_source, name)
    raise AttributeError(f"module 'onceover' has no attribute {name!r}")
