"""Outputs of old runs that are no longer read."""

from collections.abc import Collection, Iterator

from spark_jobs.flow import Step
from spark_jobs.storage.layout import run_key
from spark_jobs.storage.object_store import ObjectStat, ObjectStore
from spark_jobs.storage.planned_segments import LOG
from spark_jobs.storage.run_folder import DONE, EXPIRED, INPUTS, MANIFEST
from spark_jobs.tables.admit import ADMITTED_PARTITIONS, GAPS, PLANNED_SEGMENTS, REACH
from spark_jobs.tables.index import INDEX_FILES
from spark_jobs.tables.materialise import TABLE_FILES
from spark_jobs.tables.resolve import RESOLVED_PARTITIONS
from spark_jobs.tables.states import FOLDS, STATES

BULK = (Step.INDEX, Step.REBUILD, Step.ADMIT, Step.RESOLVE, Step.MATERIALISE)
"""Steps whose tables grow with batches and records; what the others write is small and stays readable."""
VERDICTS = (Step.REBUILD, Step.ADMIT, Step.RESOLVE)
"""Steps that a replay looks into."""
KEPT_NAMES = frozenset(
    {
        DONE,
        "messages.json",
        INDEX_FILES.file,
        STATES.file,
        ADMITTED_PARTITIONS.file,
        PLANNED_SEGMENTS.file,
        GAPS.file,
        REACH.file,
        RESOLVED_PARTITIONS.file,
        FOLDS.file,
        TABLE_FILES.file,
    }
)
KEPT_BELOW = (f"{Step.ADMIT}/{LOG}", f"{Step.MATERIALISE}/{LOG}")
"""The accepted log of captured partitions: Onceover is their broker."""


def removable_files(
    lake: ObjectStore, run_id: str, *, speaks: bool, asked_for: bool, live: Collection[str]
) -> Iterator[ObjectStat]:
    """Files of an old run; `live` ones are in tables.

    A current run (`speaks`) keeps its small files, and its verdicts if its quarantine may still be replayed
    (`asked_for`).
    """
    prefix = run_key(run_id) + "/"
    for found in lake.list(run_key(run_id)):
        path = found.key.removeprefix(prefix)
        is_kept = _stays(path, asked_for=asked_for) if speaks else _names_inputs(path)
        if not is_kept and lake.url_of(found.key) not in live:
            yield found


def _stays(path: str, *, asked_for: bool) -> bool:
    step, _, below = path.partition("/")
    return (
        step not in BULK
        or below.rpartition("/")[2] in KEPT_NAMES
        or path.startswith(KEPT_BELOW)
        or (asked_for and step in VERDICTS)
    )


def _names_inputs(path: str) -> bool:
    """Which objects the run had copied, so that those can go one day, too."""
    return path in {INPUTS, EXPIRED, f"{Step.STAGE}/{MANIFEST}"}
