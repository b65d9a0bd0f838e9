"""The table of a step's state files, and where the next run finds it."""

from collections.abc import Mapping

import pyarrow as pa

from spark_jobs.config.canonical import digest_of
from spark_jobs.flow import STEPS, Step
from spark_jobs.protocol.topic_partition import TopicPartition
from spark_jobs.storage.chain import Chain
from spark_jobs.storage.errors import BrokenState
from spark_jobs.storage.layout import step_key
from spark_jobs.storage.object_store import ObjectStore
from spark_jobs.storage.parquet_file import put_table, read_table
from spark_jobs.storage.run_folder import EMPTY_STATE, OutputFile, RunFolder
from spark_jobs.tables.states import STATES

STATE_STEPS = (Step.RESOLVE, Step.ADMIT)
"""The steps that write partition states, the authoritative one first."""

States = Mapping[TopicPartition, str]
"""Digest of each partition's state file."""


def put_states(folder: RunFolder, step: Step, states: States) -> OutputFile:
    """Writes the table of `states` as an output of `step`."""
    rows = [
        {"topic": partition.topic, "partition": partition.partition, "state": digest}
        for partition, digest in sorted(states.items())
    ]
    table = STATES.cast(pa.Table.from_pylist(rows, schema=STATES.schema))
    return put_table(folder.lake, folder.key(step), STATES.file, table)


def read_states(lake: ObjectStore, run_id: str, step: Step) -> dict[TopicPartition, str]:
    """The states that `step` of a run wrote."""
    columns = read_table(lake, step_key(run_id, step, STATES.file)).to_pydict()
    partitions = map(TopicPartition, columns["topic"], columns["partition"])
    return dict(zip(partitions, columns["state"], strict=True))


def digest_of_states(states: States) -> str:
    """What a step that hands on `states` reports as its state."""
    return digest_of([[*partition, digest] for partition, digest in sorted(states.items())])


def states_before(lake: ObjectStore, chain: Chain, state_in: str) -> tuple[str, dict[TopicPartition, str]]:
    """The run that ended in `state_in` and its states; none for a first run."""
    if state_in == EMPTY_STATE:
        return "", {}
    entry = chain.run_with_state(state_in)
    if entry is None:
        raise BrokenState(f"{lake.url}: no run of the chain ended in the state {state_in}")
    reached = STEPS[: STEPS.index(entry.last_step) + 1]
    for step in STATE_STEPS:
        if step in reached and lake.stat(step_key(entry.run_id, step, STATES.file)) is not None:
            return entry.run_id, read_states(lake, entry.run_id, step)
    return entry.run_id, {}
