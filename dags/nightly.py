"""# One run: exactly-once tables of one date

Turns the Kafka batches that arrived until the end of a day into tables that hold each committed record once,
with a verdict and a reason for every batch. Each task is one step of `onceover run`. Steps exchange tables in
the run's folder of the lake, so a task can be cleared at any time: finished steps are not repeated, and the
result is the same.

**Which run date?** The day in which the data interval starts, or the *Run date* of the trigger form.

**When something fails:** the last lines of the task's log say what failed and what to do. Only transient
errors are retried (a busy lake, a store that does not answer, a worker that died). `report` shows the failure
on the dashboard, and the DAG run fails. The next run takes the objects of a run that never succeeded.

**After a failure or a rollback** the next attempt uses the inputs that the first one fixed. The log of
`stage` shows when that was, and how many objects are new at the sources. Trigger with *Restage* to list the
sources again.

**Environment:** `ONCEOVER_CONFIG` is the path of the configuration, `ONCEOVER_SCHEDULE` a cron expression in
UTC (`none` to run by hand only), `ONCEOVER_DEADLINE_HOURS` the hours after which a late run is reported (4).
The pool `onceover` has one slot. The optional connection `onceover_spark` sets the Spark master.
"""

import os
from datetime import UTC, datetime

from airflow.sdk import DAG, CronDataIntervalTimetable, Param, chain

from spark_jobs.airflow.dag_run import NIGHTLY
from spark_jobs.airflow.tasks import deadline, report_task, run_succeeded_task, source_tasks, step_task
from spark_jobs.flow import LAST_OF_RUN, Step, steps_until

AT_THREE = "0 3 * * *"
"""Late enough for the last objects of the day to have arrived."""
SCHEDULE = os.environ.get("ONCEOVER_SCHEDULE", AT_THREE)

WHY = {
    Step.STAGE: "Fixes the run's inputs: objects, sizes, checksums and order.",
    Step.INDEX: "One row per batch: its header, its position, whether its checksum is valid.",
    Step.REBUILD: "What a broker would know about every producer at the start of the run.",
    Step.ADMIT: "A verdict for every batch, as a broker would have given it, and offsets for the accepted.",
    Step.RESOLVE: "How every transaction ended, from the markers and the coordinator's own log.",
    Step.MATERIALISE: "Decodes the records of committed batches into files that are not published yet.",
    Step.DEDUPLICATE: "Sets records aside whose business id an earlier one has, where a topic declares it.",
    Step.AUDIT: "Checks the results of the run; a failed critical expectation stops the run here.",
    Step.PUBLISH: "Makes the audited files visible, one commit per table.",
    Step.REPORT: "Updates the dashboard; also when the run failed.",
}

with DAG(
    dag_id=NIGHTLY,
    description="Exactly-once tables from one day of raw Kafka batches.",
    doc_md=__doc__,
    schedule=None if SCHEDULE == "none" else CronDataIntervalTimetable(SCHEDULE, timezone="UTC"),
    start_date=datetime(2024, 1, 1, tzinfo=UTC),
    catchup=False,
    deadline=deadline(),
    max_active_runs=1,
    tags=["onceover"],
    params={
        "date": Param(
            None,
            type=["null", "string"],
            format="date",
            title="Run date",
            description="The date to run, such as 2026-03-01; empty for the date of the schedule.",
        ),
        "restage": Param(
            False,
            type="boolean",
            title="Restage",
            description="Lists the sources again, although an earlier attempt has fixed the inputs of this "
            "date. Only for a date whose run is not final; use the backfill DAG for a final run.",
        ),
    },
) as nightly:
    steps = [step_task(step, WHY[step]) for step in steps_until(LAST_OF_RUN)]
    report = report_task(WHY[Step.REPORT], run_of=Step.STAGE)
    run_succeeded = run_succeeded_task(
        "Succeeds if the run is published and reported, and no partition is held behind missing offsets. "
        "Without it `report`, which always runs, would make every DAG run succeed.",
        audit=Step.AUDIT,
    )

    # A chain, since every step needs what the one before it has written:
    #   sources → fetch       each source by itself
    #   fetch → stage         the inputs are fixed once, for all sources
    #   stage → index         only fixed inputs are read: objects may still arrive or change
    #   index → rebuild       the tail of a log after its snapshot is replayed from the index
    #   rebuild → admit       a verdict depends on the producer's earlier state
    #   admit → resolve       a transaction consists of accepted batches
    #   resolve → materialise only committed records are decoded
    #   materialise → deduplicate  business ids are read from the files of records; without a declared id the
    #                         files stay as they are
    #   deduplicate → audit   the files to be published are checked
    #   audit → publish       nothing is visible before the audit has passed
    #   publish → report      shows what was published, or why nothing was
    #   both → run_succeeded  Airflow takes the state of a DAG run from its last tasks, and `report` always
    #                         runs; it fails while partitions are held behind missing offsets
    chain(source_tasks(), *steps, report)
    chain([steps[-1], report], run_succeeded)
