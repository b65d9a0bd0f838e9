"""The form that a backfill is triggered with."""

from airflow.sdk import Param

FORM = {
    "from": Param(
        type="string",
        format="date",
        title="From",
        description="The first day that shall hold what its sources hold now, such as 2026-03-01.",
    ),
    "to": Param(
        None,
        type=["null", "string"],
        format="date",
        title="To",
        description="The last such day; empty for the first alone. Later days follow as far as they must.",
    ),
    "topics": Param(
        [],
        type="array",
        items={"type": "string", "minLength": 1},
        title="Topics",
        description="Names or shell patterns such as orders*, one per line; empty for all.",
    ),
    "sources": Param(
        [],
        type="array",
        items={"type": "string", "minLength": 1},
        title="Sources",
        description="Names of sources in the configuration, one per line; empty for all.",
    ),
    "reason": Param(
        type="string",
        minLength=3,
        title="Reason",
        description="Why: a sentence that is kept with the runs.",
    ),
    "dry_run": Param(
        True,
        type="boolean",
        title="Dry run",
        description="Shows the plan and ends. Without it the days run, once approved where that is required.",
    ),
}
