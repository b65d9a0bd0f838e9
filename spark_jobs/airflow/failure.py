"""Error handling of tasks: only transient errors are retried, and the last log lines say what to do."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from airflow.sdk import Context
from airflow.sdk.exceptions import AirflowFailException

from spark_jobs.airflow.run_date import NIGHTLY, run_date_of
from spark_jobs.protocol.errors import OnceoverError

LOG = logging.getLogger("onceover")


@contextmanager
def final_unless_transient() -> Iterator[None]:
    """An error that trying again cannot help is final at once."""
    try:
        yield
    except OnceoverError as error:
        if error.transient:
            raise
        raise AirflowFailException(str(error)) from None


def explain_failure(context: Context) -> None:
    """The last lines of a failed task's log: what failed, and what a person can do."""
    LOG.error(
        "%s stopped at '%s': %s\nOnce the cause is gone, clear this task: the run continues where it "
        "stopped, and what is done is not done again.",
        _what(context),
        context["ti"].task_id,
        context.get("exception"),
    )


def _what(context: Context) -> str:
    if context["ti"].dag_id != NIGHTLY:
        return f"this run of {context['ti'].dag_id}"
    try:
        return f"the run of {run_date_of(context)}"
    except AirflowFailException:
        return "the run without a date"
