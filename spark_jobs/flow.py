"""The ten steps of a run in order; DAGs, command line, run folder and tests use this one definition."""

from enum import StrEnum


class Step(StrEnum):
    """A step's value is the name of its module, its Airflow task, its folder in a run and its test module."""

    STAGE = "stage"
    INDEX = "index"
    REBUILD = "rebuild"
    ADMIT = "admit"
    RESOLVE = "resolve"
    MATERIALISE = "materialise"
    DEDUPLICATE = "deduplicate"
    AUDIT = "audit"
    PUBLISH = "publish"
    REPORT = "report"


STEPS: tuple[Step, ...] = tuple(Step)
LAST_OF_RUN = Step.PUBLISH
"""The last step of a run, after which it is final. `report` comes after it, also for failed runs."""

OPTIONAL: frozenset[Step] = frozenset({Step.DEDUPLICATE})
"""Steps that a run has only if its settings ask for them; others leave no trace of them in the run folder."""


def steps_until(last: Step) -> tuple[Step, ...]:
    """All steps up to and including `last`, in order."""
    return STEPS[: STEPS.index(last) + 1]
