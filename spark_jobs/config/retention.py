"""How long things are kept that later nights do not need."""

from typing import Annotated

from pydantic import Field

from spark_jobs.config.fields import Count, Frozen

Days = Annotated[Count, Field(ge=1)]


class RetentionSettings(Frozen):
    """Days back from the newest final night; without a number, everything of that kind is kept.

    `runs_days`: what the steps of a night wrote. `snapshots_days`: tags and snapshots of published runs, and
    files that only they show. `staged_days`: copies of source objects. What the chain, waiting batches, the
    tables or undecided quarantine need stays, however old it is.
    """

    runs_days: Days | None = None
    snapshots_days: Days | None = None
    staged_days: Days | None = None
