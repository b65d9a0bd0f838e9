"""Sentences for the run's report about a cut: what changed, what is missing, what could not be read."""

from collections.abc import Iterator, Mapping
from typing import Any

from spark_jobs.config.sources import TRANSACTION_STATE

MOST_NAMES = 5


def remarks_of(source: str, facts: Mapping[str, Any]) -> Iterator[str]:
    """Remarks on the facts of a cut, as `cut.json` has them."""
    for topic in facts["denied"]:
        effect = (
            "markers alone decide transactions, and open ones are held"
            if topic == TRANSACTION_STATE
            else "the table consumer_offsets gets no new rows"
        )
        yield f"{source}: the principal may not read {topic}: {effect}"
    for note in facts["notes"]:
        yield f"{source}: {note}"
    overtaken = [each for each in facts["partitions"] if 0 <= each["expected"] < each["log_start_offset"]]
    if overtaken:
        lost = [f"{_name(each)} {each['expected']} to {each['log_start_offset'] - 1}" for each in overtaken]
        yield (
            f"{source}: retention or DeleteRecords overtook the runs; the cluster deleted offsets before "
            f"they were fetched: {_some(lost)}"
        )
    gone = [_name(each) for each in facts["partitions"] if each["is_gone"]]
    if gone:
        yield f"{source}: deleted or recreated while it was fetched, so its end is missing: {_some(gone)}"


def _name(partition: Mapping[str, Any]) -> str:
    return f"{partition['topic']}-{partition['partition']}"


def _some(names: list[str]) -> str:
    more = len(names) - MOST_NAMES
    return ", ".join(names[:MOST_NAMES]) + (f" and {more} more" if more > 0 else "")
