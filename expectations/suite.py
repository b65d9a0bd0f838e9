"""A suite: the expectations of one table, and the facts that they are evaluated on."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa

from spark_jobs.config.audit import AuditSettings
from spark_jobs.tables.audit import ANSWER_FACTS

if TYPE_CHECKING:  # the library loads slowly, and `audit` needs the facts before it
    from great_expectations.expectations import Expectation


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """Tables `source_facts`, `partition_facts` and `transaction_facts`, and `topic_volumes` of the run.

    `history` are the `topic_volumes` of earlier runs, `answers` is `answer_facts`, `ids` the table `id_facts`
    of a run with the step `deduplicate`. All are small, for a run of any size.
    """

    sources: pa.Table
    partitions: pa.Table
    transactions: pa.Table
    volumes: pa.Table
    history: tuple[pa.Table, ...] = ()
    answers: pa.Table = field(default_factory=ANSWER_FACTS.schema.empty_table)
    ids: pa.Table | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Suite:
    """`about` are the columns of the frame that name a row; `shown` are more to show of a failing one.

    A suite is evaluated if it `applies` to the run.
    """

    name: str
    about: tuple[str, ...]
    frame: Callable[[Facts, AuditSettings], pa.Table]
    expectations: "Callable[[AuditSettings], tuple[Expectation, ...]]"
    shown: tuple[str, ...] = ()
    applies: Callable[[Facts], bool] = lambda _: True
