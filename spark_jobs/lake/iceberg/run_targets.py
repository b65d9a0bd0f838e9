"""The targets of a run: the files that each table should hold of it, read from its folder."""

from collections import defaultdict
from collections.abc import Iterator
from typing import NamedTuple

from pyiceberg.catalog import Catalog

from spark_jobs.config.settings import Settings
from spark_jobs.flow import STEPS, Step
from spark_jobs.lake.iceberg.target import DataFile, RunStamp, TableTarget
from spark_jobs.lake.iceberg.topic_tables import TopicTables, publish_target, topic_contract
from spark_jobs.lake.object_store import printable
from spark_jobs.lake.parquet_file import read_table
from spark_jobs.lake.run_folder import RunFolder, StepDone, combine_states
from spark_jobs.lake.table_listing import TableEntry, final_listing, read_listing
from spark_jobs.tables.publish import OWN_TABLES, RUNS
from spark_jobs.tables.resolve import RESOLVED_PARTITIONS
from spark_jobs.tables.table_names import readable_name

LISTED_BY = (Step.MATERIALISE, Step.DEDUPLICATE, Step.AUDIT)
"""The steps that write files of published tables."""


class TableKey(NamedTuple):
    """Identifies a table independent of its name in the catalog: by topic, or as one of Onceover's own."""

    topic: str | None
    own: str

    @property
    def order(self) -> tuple[bool, bool, str]:
        """Topics first, those whose names need no change before all others; then Onceover's own tables."""
        if self.topic is None:
            return True, False, self.own
        return False, readable_name(self.topic) != self.topic, self.topic

    def __str__(self) -> str:
        return f"table {self.own}" if self.topic is None else f"the table of topic {printable(self.topic)}"


def finished_before(folder: RunFolder, step: Step) -> list[StepDone]:
    """The finished steps before `step`."""
    return [done for done in folder.steps_done() if STEPS.index(done.step) < STEPS.index(step)]


def stamp_of(folder: RunFolder, done: list[StepDone]) -> RunStamp:
    """The run's properties in every snapshot summary."""
    inputs = folder.inputs
    return RunStamp(
        run_id=inputs.run_id,
        day=inputs.day,
        manifest=inputs.manifest,
        config=inputs.config,
        state_in=inputs.state_in,
        state_out=combine_states({each.step: each.state for each in done}),
    )


def listed_tables(folder: RunFolder) -> dict[TableKey, list[tuple[Step, TableEntry]]]:
    """The files that the run's steps wrote for all tables except `runs`."""
    listed: dict[TableKey, list[tuple[Step, TableEntry]]] = defaultdict(list)
    of_audit = [(Step.AUDIT, entry) for entry in read_listing(folder, Step.AUDIT)]
    for step, entry in (*final_listing(folder), *of_audit):
        key = TableKey(None, entry.table) if entry.topic is None else TableKey(entry.topic, "")
        listed[key].append((step, entry))
    return dict(sorted(listed.items(), key=lambda item: item[0].order))


def table_targets(settings: Settings, folder: RunFolder) -> Iterator[TableTarget]:
    """The targets of all tables except `runs`.

    Of new topics with the same readable name, the first in this order gets it: one that needs no change.
    """
    next_offsets = read_next_offsets(folder)
    for key, entries in listed_tables(folder).items():
        files = tuple(data_files(folder, entries))
        if key.topic is None:
            contract = OWN_TABLES[key.own]
            yield TableTarget(namespace=settings.catalog.namespace, contract=contract, files=files)
        else:
            yield TableTarget(
                namespace=settings.catalog.topics,
                contract=topic_contract(settings, key.topic, readable_name(key.topic)),
                files=files,
                topic=key.topic,
                next_offsets=next_offsets[key.topic],
            )


def data_files(folder: RunFolder, entries: list[tuple[Step, TableEntry]]) -> Iterator[DataFile]:
    """The files with their addresses."""
    for step, entry in entries:
        if entry.file is not None:
            yield DataFile(location=folder.lake.url_of(folder.key(step, entry.file)), rows=entry.rows)


def run_target(settings: Settings, folder: RunFolder) -> TableTarget:
    """The table `runs` with this run in it."""
    return TableTarget(
        namespace=settings.catalog.namespace, contract=OWN_TABLES[RUNS.name], files=(run_file(folder),)
    )


def run_file(folder: RunFolder) -> DataFile:
    """The file with the run's row in the table `runs`."""
    return DataFile(location=folder.lake.url_of(folder.key(Step.PUBLISH, RUNS.file)), rows=1)


def read_next_offsets(folder: RunFolder) -> dict[str, dict[int, int]]:
    """The first offset of the next run's records, by topic and partition."""
    table = read_table(folder.lake, folder.key(Step.RESOLVE, RESOLVED_PARTITIONS.file))
    columns = (table.column(name).to_pylist() for name in ("topic", "partition", "end_offset"))
    offsets: dict[str, dict[int, int]] = defaultdict(dict)
    for topic, partition, end_offset in zip(*columns, strict=True):
        offsets[topic][partition] = end_offset
    return offsets


def publish_again(
    catalog: Catalog, settings: Settings, folder: RunFolder, *, only: TableKey | None = None
) -> None:
    """Publishes the targets of a published run again, all or `only` one; does nothing where they match."""
    stamp = stamp_of(folder, finished_before(folder, Step.PUBLISH))
    topics = TopicTables(catalog, settings.catalog.topics)
    for target in (*table_targets(settings, folder), run_target(settings, folder)):
        if only is None or only == _key(target):
            publish_target(catalog, topics, target, stamp)


def _key(target: TableTarget) -> TableKey:
    return TableKey(None, target.contract.name) if target.topic is None else TableKey(target.topic, "")
