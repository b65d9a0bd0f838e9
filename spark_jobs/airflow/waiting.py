"""Order among runs and tasks that Airflow itself does not promise: whoever is too early looks again later."""

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


def wait_for_earlier_nights(context: Context) -> None:
    """Nights in their order: Airflow's own backfill starts several at once, and none may overtake another.

    A night that has failed is not waited for: the next one takes what it left.
    """
    for state in UNDER_WAY:
        earlier = context["ti"].get_previous_dagrun(state)
        if earlier is not None:
            raise look_again_later(f"{earlier.run_id} comes before this night and is {state}")
