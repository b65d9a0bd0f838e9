"""The deadline of a run: a late run is reported while there is time to act."""

import logging
import os
from datetime import timedelta
from typing import Any

from airflow.sdk.definitions.callback import SyncCallback
from airflow.sdk.definitions.deadline import DeadlineAlert, DeadlineReference

LOG = logging.getLogger("onceover")
VARIABLE, HOURS = "ONCEOVER_DEADLINE_HOURS", "4"
"""A run that is queued at 03:00 is reported at 07:00 at the latest."""


def deadline() -> DeadlineAlert:
    """So many hours after the run was queued; the executor then runs `report_late`, no triggerer is
    needed.
    """
    hours = float(os.environ.get(VARIABLE, HOURS))
    return DeadlineAlert(
        reference=DeadlineReference.DAGRUN_QUEUED_AT,
        interval=timedelta(hours=hours),
        callback=SyncCallback(report_late, {"hours": hours}),
        name="late",
    )


def report_late(hours: float, context: dict[str, Any]) -> None:
    """Logs what an operator needs to know about a late run."""
    LOG.error(
        "the run %s of %s is not done %g hours after it was queued. It continues; nothing is lost. The log "
        "of the running task shows its progress; a task that is queued in the pool 'onceover' waits for "
        "another run. %s sets the time.",
        context["dag_run"]["dag_run_id"],
        context["dag_run"]["dag_id"],
        hours,
        VARIABLE,
    )
