"""Until when a night should be done; a night that is late is told while there is time to do something."""

import logging
import os
from datetime import timedelta
from typing import Any

from airflow.sdk.definitions.callback import SyncCallback
from airflow.sdk.definitions.deadline import DeadlineAlert, DeadlineReference

LOG = logging.getLogger("onceover")
VARIABLE, HOURS = "ONCEOVER_DEADLINE_HOURS", "4"
"""A night that is queued at three is looked at by seven, before people come to work."""


def deadline() -> DeadlineAlert:
    """So many hours after the run was queued; the executor then runs `tell_late`, no triggerer is needed."""
    hours = float(os.environ.get(VARIABLE, HOURS))
    return DeadlineAlert(
        reference=DeadlineReference.DAGRUN_QUEUED_AT,
        interval=timedelta(hours=hours),
        callback=SyncCallback(tell_late, {"hours": hours}),
        name="late",
    )


def tell_late(hours: float, context: dict[str, Any]) -> None:
    """What a person needs to know of a night that is late."""
    LOG.error(
        "the run %s of %s is not done %g hours after it was queued. It goes on; nothing is lost. The task at "
        "work tells in its log how far it is; one that waits in the pool 'onceover' waits for another run. "
        "%s sets the time.",
        context["dag_run"]["dag_run_id"],
        context["dag_run"]["dag_id"],
        hours,
        VARIABLE,
    )
