"""The nine steps of a run, in order: the one value that DAG, command line, run folder and tests share."""

from enum import StrEnum


class Step(StrEnum):
    """A step's value is its module, task id, run-folder table, expectation suite and test name."""

    STAGE = "stage"
    INDEX = "index"
    REBUILD = "rebuild"
    ADMIT = "admit"
    RESOLVE = "resolve"
    MATERIALISE = "materialise"
    AUDIT = "audit"
    PUBLISH = "publish"
    REPORT = "report"


STEPS: tuple[Step, ...] = tuple(Step)


def steps_until(last: Step) -> tuple[Step, ...]:
    """All steps up to and including `last`, in order."""
    return STEPS[: STEPS.index(last) + 1]
