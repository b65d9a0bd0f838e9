"""Order among runs and tasks that Airflow does not guarantee: a task that is too early is rescheduled."""

import logging
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from airflow.sdk import Context
from airflow.sdk.exceptions import AirflowRescheduleException

LOG = logging.getLogger("onceover")
PAUSE = timedelta(seconds=10)
UNDER_WAY = ("running", "queued")


def look_again_later(why: str) -> Exception:
    """Ends this try without counting it; the task keeps no worker and no slot meanwhile."""
    LOG.info("%s; looks again in %d s", why, PAUSE.seconds)
    later: Callable[[datetime], Exception] = AirflowRescheduleException  # Airflow leaves it unannotated
    return later(datetime.now(UTC) + PAUSE)


def wait_for_earlier_runs(context: Context) -> None:
    """Keeps runs in order: Airflow's own backfill starts several at once.

    A failed run is not waited for: the next one takes its objects.
    """
    for state in UNDER_WAY:
        earlier = context["ti"].get_previous_dagrun(state)
        if earlier is not None:
            raise look_again_later(f"{earlier.run_id} precedes this run and is {state}")
