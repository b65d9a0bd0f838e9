"""Checks the folders of the chain's runs, their state files, and the objects that they read."""

import hashlib
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from spark_jobs.checking.finding import Finding, Part
from spark_jobs.expiring.cutoffs import Cutoffs
from spark_jobs.expiring.objects import inherited_by
from spark_jobs.flow import Step, steps_until
from spark_jobs.protocol.errors import OnceoverError
from spark_jobs.storage.chain import Chain, ChainEntry
from spark_jobs.storage.folds import read_folds
from spark_jobs.storage.keys import printable
from spark_jobs.storage.layout import OBJECTS, STATE, object_key, run_key, state_key, step_key
from spark_jobs.storage.object_store import ObjectStore
from spark_jobs.storage.planned_segments import LOG
from spark_jobs.storage.run_folder import DONE, OutputFile, RunFolder, StepDone, combine_states, read_inputs
from spark_jobs.storage.segment_digest import segment_digest
from spark_jobs.storage.staged import read_run_manifest
from spark_jobs.storage.states import STATE_STEPS, read_states
from spark_jobs.tables.states import FOLDS, STATES

RESTORE = "restore it from a backup of the lake"
NAMED = 5
"""Files of one kind that are named one by one; of more, only their number is given."""


@dataclass(frozen=True)
class CheckedLake:
    """A lake's listing for the checks; a `deep` check compares every byte with its digest."""

    store: ObjectStore
    chain: Chain
    cutoffs: Cutoffs
    deep: bool

    @cached_property
    def states(self) -> dict[str, int]:
        """Sizes of state files, by the digest that names them."""
        return {found.key.rpartition("/")[2]: found.size for found in self.store.list(STATE)}

    @cached_property
    def objects(self) -> dict[str, int]:
        """Sizes of staged objects, by their digests."""
        return {found.key.rpartition("/")[2]: found.size for found in self.store.list(OBJECTS)}

    def sizes(self, run_id: str) -> dict[str, int]:
        """Sizes of a run's files, by path below its folder."""
        prefix = run_key(run_id) + "/"
        return {found.key.removeprefix(prefix): found.size for found in self.store.list(prefix)}


def check_run(lake: CheckedLake, entry: ChainEntry) -> Iterator[Finding]:
    """All checks of a current run."""
    place = lake.store.url_of(run_key(entry.run_id))
    try:
        inputs = read_inputs(lake.store, entry.run_id)
    except OnceoverError as error:
        yield Finding(part=Part.RUNS, place=place, problem=str(error), remedy=RESTORE)
        return
    expected = (entry.run_id, entry.day, entry.manifest, entry.config, entry.state_in)
    if (inputs.run_id, inputs.day, inputs.manifest, inputs.config, inputs.state_in) != expected:
        problem = "its inputs.json does not match its name and its chain entry"
        yield Finding(part=Part.RUNS, place=place, problem=problem, remedy=RESTORE)
        return
    yield from _check_steps(lake, entry, RunFolder(lake.store, inputs))
    yield from _check_states(lake, entry)
    yield from _check_objects(lake, entry)


def check_contents(lake: CheckedLake, on_progress: Callable[[str], None]) -> Iterator[Finding]:
    """Whether the content of states and staged objects matches their names; reads all of them."""
    named = [(Part.STATES, state_key(each)) for each in lake.states]
    named += [(Part.OBJECTS, object_key(each)) for each in lake.objects]
    for number, (part, key) in enumerate(named, start=1):
        on_progress(f"check: {number} of {len(named)} states and objects")
        if content_digest(lake.store, key) != key.rpartition("/")[2]:
            place, problem = lake.store.url_of(key), "the SHA-256 of its content differs from its name"
            yield Finding(part=part, place=place, problem=problem, remedy=RESTORE)


def content_digest(store: ObjectStore, key: str) -> str:
    """SHA-256 of an object's bytes."""
    digest = hashlib.sha256()
    for chunk in store.chunks(key):
        digest.update(chunk)
    return digest.hexdigest()


def _check_steps(lake: CheckedLake, entry: ChainEntry, folder: RunFolder) -> Iterator[Finding]:
    """The marks of its steps in order, each following from the one before, and what they list."""
    sizes, again = lake.sizes(entry.run_id), f"`onceover run --date {entry.day}` does the step again"
    marks: list[StepDone] = []
    for step in steps_until(entry.last_step):
        place = lake.store.url_of(folder.key(step, DONE))
        try:
            mark = folder.marked(step)
        except OnceoverError as error:
            yield Finding(part=Part.RUNS, place=place, problem=str(error))
            return
        if mark is None:
            problem = f"{step} is not marked as done, though the chain lists it"
            yield Finding(part=Part.RUNS, place=place, problem=problem, remedy=again)
            return
        if mark.after != (marks[-1].digest if marks else ""):
            problem = f"{step} does not follow from the step before it"
            yield Finding(part=Part.RUNS, place=place, problem=problem, remedy=again)
        marks.append(mark)
        yield from _check_outputs(lake, folder, mark, sizes, remedy=again)
    states = combine_states({mark.step: mark.state for mark in marks})
    if (marks[-1].digest, states) != (entry.outputs, entry.state_out):
        problem = "what its steps wrote is not what became final: digests differ from its chain entry"
        place = lake.store.url_of(run_key(entry.run_id))
        yield Finding(part=Part.RUNS, place=place, problem=problem, remedy=RESTORE)


def _check_outputs(
    lake: CheckedLake, folder: RunFolder, mark: StepDone, sizes: Mapping[str, int], *, remedy: str
) -> Iterator[Finding]:
    problems: list[tuple[OutputFile, str]] = []
    for output in mark.outputs:
        size = sizes.get(f"{mark.step}/{output.path}")
        if size is None and not folder.is_expired:
            problems.append((output, "is missing"))
        elif size is not None and size != output.size:
            problems.append((output, f"has {size:,} bytes, expected {output.size:,}"))
        elif size is not None and lake.deep and not _is_intact(lake.store, folder, mark.step, output):
            problems.append((output, "its content differs from its digest"))
    for output, problem in problems[:NAMED]:
        place = lake.store.url_of(folder.key(mark.step, output.path))
        yield Finding(part=Part.RUNS, place=printable(place), problem=problem, remedy=remedy)
    if len(problems) > NAMED:
        place = lake.store.url_of(folder.key(mark.step))
        problem = f"{len(problems) - NAMED:,} more files are missing or differ"
        yield Finding(part=Part.RUNS, place=place, problem=problem, remedy=remedy)


def _is_intact(store: ObjectStore, folder: RunFolder, step: Step, output: OutputFile) -> bool:
    is_segment = output.path.startswith(LOG) and output.path.endswith(".log")
    digest = _segment_digest if is_segment else content_digest
    return digest(store, folder.key(step, output.path)) == output.digest


def _segment_digest(store: ObjectStore, key: str) -> str:
    """Of a segment of an accepted log, whose batches have checksums of their own."""
    path = store.local_path(key)
    if path is not None:
        return segment_digest(path)
    with tempfile.NamedTemporaryFile() as copy:
        for chunk in store.chunks(key):
            copy.write(chunk)
        copy.flush()
        return segment_digest(Path(copy.name))


def _check_states(lake: CheckedLake, entry: ChainEntry) -> Iterator[Finding]:
    """The state files of the run; of the newest run, also the files that they refer to."""
    try:
        digests = set(_handed_on(lake.store, entry.run_id))
        if entry is list(lake.chain.current.values())[-1]:
            digests |= set(inherited_by(lake.store, entry.run_id))
    except OnceoverError as error:
        yield Finding(part=Part.STATES, place=entry.run_id, problem=str(error), remedy=RESTORE)
        return
    for digest in sorted(digests - lake.states.keys())[:NAMED]:
        problem = f"is missing; {entry.run_id} hands it on"
        place = lake.store.url_of(state_key(digest))
        yield Finding(part=Part.STATES, place=place, problem=problem, remedy=RESTORE)


def _handed_on(store: ObjectStore, run_id: str) -> Iterator[str]:
    for step in STATE_STEPS:
        if store.stat(step_key(run_id, step, STATES.file)) is not None:
            yield from read_states(store, run_id, step).values()
    if store.stat(step_key(run_id, Step.RESOLVE, FOLDS.file)) is not None:
        yield from read_folds(store, run_id).values()


def _check_objects(lake: CheckedLake, entry: ChainEntry) -> Iterator[Finding]:
    """The manifest, and the copies of objects that it names; of old runs an expiry may have removed them."""
    place = entry.run_id
    try:
        manifest = read_run_manifest(lake.store, entry.run_id)
    except OnceoverError as error:
        yield Finding(part=Part.RUNS, place=place, problem=str(error), remedy=RESTORE)
        return
    if manifest.digest != entry.manifest:
        problem = "the digest of its manifest differs from its chain entry"
        yield Finding(part=Part.RUNS, place=place, problem=problem, remedy=RESTORE)
    copied = {each.sha256: each.size for each in manifest.entries if not (each.referenced or each.inherited)}
    wrong = sorted(sha for sha, size in copied.items() if lake.objects.get(sha) != size)
    if not wrong or lake.cutoffs.is_old(entry.run_id, lake.cutoffs.staged):
        return
    problem = (
        f"is missing or has another size; {entry.run_id} has read it, and {len(wrong) - 1:,} more like it"
    )
    address = lake.store.url_of(object_key(wrong[0]))
    yield Finding(part=Part.OBJECTS, place=address, problem=problem, remedy=RESTORE)
