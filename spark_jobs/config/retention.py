"""Retention of data that later runs do not need."""

from typing import Annotated

from pydantic import Field

from spark_jobs.config.fields import Count, Frozen

Days = Annotated[Count, Field(ge=1)]


class RetentionSettings(Frozen):
    """Days before the newest final run; without a number, everything of that kind is kept.

    `runs_days`: outputs of the steps of a run. `snapshots_days`: tags and snapshots of published runs, and
    files that only they show. `staged_days`: copies of source objects. What the chain, waiting batches, the
    tables or undecided quarantine need stays, however old it is.
    """

    runs_days: Days | None = None
    snapshots_days: Days | None = None
    staged_days: Days | None = None
