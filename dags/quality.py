"""# Dashboard and retention

Updates the lake's dashboard whenever an Onceover table has changed: by a run, by a backfill, or by another
DAG that updates the asset. It can be triggered at any time. The Data Docs of every run are on the dashboard,
too. Then everything older than the configured `retention` is removed: old runs, staged objects and snapshots
that are no longer needed. Without `retention` nothing is removed.
"""

from airflow.sdk import DAG, TriggerRule, chain

from spark_jobs.airflow.tasks import TABLES, expire_task, report_task

with DAG(
    dag_id="onceover_quality",
    description="The data-quality dashboard, up to date with the tables.",
    doc_md=__doc__,
    schedule=TABLES,
    catchup=False,
    max_active_runs=1,
    tags=["onceover"],
) as quality:
    report = report_task(
        "Updates the dashboard with all runs of the lake.", trigger_rule=TriggerRule.ALL_SUCCESS
    )
    chain(report, expire_task("Removes what is older than the configured retention and no longer needed."))
