"""Every metric: its name, its labels, its meaning.

All are gauges. A run is an event with a size, not a process that counts up: each run replaces the values of
the previous one, and a repeated run sets its values again instead of adding them.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Metric:
    """A name by Prometheus' conventions: prefix, thing, base unit; labels distinguish what can be summed."""

    name: str
    help: str
    labels: tuple[str, ...] = ()


RUN_INFO = Metric("onceover_run_info", "The last run; always 1.", ("run_id", "date", "status"))
RUN_SUCCESS = Metric("onceover_run_success", "1 if the last run is final, 0 if it failed or did not end.")
RUN_ATTEMPTS = Metric("onceover_run_attempts", "How often the last run was started.")
RUN_END = Metric("onceover_run_end_timestamp_seconds", "When the last run ended, well or not.")
SUCCESS_END = Metric("onceover_last_success_timestamp_seconds", "When a run last became final.")
SUCCESS_RUN_DATE = Metric(
    "onceover_last_success_run_date_timestamp_seconds",
    "Date of the newest final run, as its midnight in UTC.",
)
STEP_DURATION = Metric("onceover_step_duration_seconds", "How long a step of the last run took.", ("step",))
STAGED_BYTES = Metric("onceover_staged_bytes", "Bytes of the objects that the last run took.")
STAGED_OBJECTS = Metric("onceover_staged_objects", "Objects that the last run took.")
SET_ASIDE = Metric("onceover_set_aside_objects", "Objects that were not fit to be taken; a later run may.")
BATCHES = Metric("onceover_batches", "Batches of the last run by verdict.", ("topic", "verdict"))
PUBLISHED_RECORDS = Metric("onceover_published_records", "Rows that the last run added.", ("topic",))
PUBLISHED_BYTES = Metric("onceover_published_bytes", "Bytes of the files that hold them.", ("topic",))
QUARANTINED = Metric("onceover_quarantined_rows", "Rows of the last run in quarantine.", ("kind",))
TRANSACTIONS = Metric("onceover_transactions", "Transactions of the last run by outcome.", ("outcome",))
LAG = Metric(
    "onceover_last_stable_offset_lag",
    "Offsets between the last stable offset and the log's end: the largest of a topic's partitions.",
    ("topic",),
)
HELD_BATCHES = Metric("onceover_held_batches", "Batches held for a later run.", ("topic",))
GAP_OFFSETS = Metric(
    "onceover_gap_offsets", "Offsets that no copy has, with partitions held behind them.", ("topic",)
)
BEHIND_GAPS = Metric("onceover_behind_gap_batches", "Batches held behind missing offsets.", ("topic",))
FAILED_EXPECTATIONS = Metric(
    "onceover_failed_expectations", "Expectations that the last run did not meet.", ("severity",)
)

METRICS: tuple[Metric, ...] = (
    RUN_INFO,
    RUN_SUCCESS,
    RUN_ATTEMPTS,
    RUN_END,
    SUCCESS_END,
    SUCCESS_RUN_DATE,
    STEP_DURATION,
    STAGED_BYTES,
    STAGED_OBJECTS,
    SET_ASIDE,
    BATCHES,
    PUBLISHED_RECORDS,
    PUBLISHED_BYTES,
    QUARANTINED,
    TRANSACTIONS,
    LAG,
    HELD_BATCHES,
    GAP_OFFSETS,
    BEHIND_GAPS,
    FAILED_EXPECTATIONS,
)
"""In the order in which they are written."""
