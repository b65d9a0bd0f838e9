"""The chain of final runs: the current run of each date, and the state that the next run starts from.

Entries are numbered and never change. A run becomes final in one step: the exclusive creation of the next
entry. The second of two concurrent writers finds the number taken. An entry names its predecessor's digest,
so the order cannot be rewritten unnoticed. Entries hold no wall-clock time.
"""

import hashlib
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from datetime import date
from enum import StrEnum
from functools import cached_property
from typing import Any

from spark_jobs.config.canonical import canonical_json
from spark_jobs.flow import STEPS, Step
from spark_jobs.lake.errors import BrokenChain, ChainConflict, Damaged, OutOfTurn, understood
from spark_jobs.lake.layout import CHAIN, chain_key
from spark_jobs.lake.object_store import ObjectStore
from spark_jobs.lake.run_folder import EMPTY_STATE, RunInputs

READERS = 16


class EntryKind(StrEnum):
    """A run that became final, or was rolled back."""

    RUN = "run"
    ROLLBACK = "rollback"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainEntry:
    """One final run.

    `parent` is the digest of the entry before this one, empty for the first. `outputs` is the digest of the
    last step, which covers all steps before it. `replaces` is the run that was current for the date before.
    """

    number: int
    parent: str
    kind: EntryKind
    run_id: str
    day: date
    manifest: str
    config: str
    state_in: str
    state_out: str
    last_step: Step
    outputs: str
    replaces: str = ""

    def to_bytes(self) -> bytes:
        return canonical_json({**asdict(self), "day": self.day.isoformat()})

    @property
    def digest(self) -> str:
        return hashlib.sha256(self.to_bytes()).hexdigest()

    @property
    def is_published(self) -> bool:
        """Whether the run includes `publish`."""
        return STEPS.index(self.last_step) >= STEPS.index(Step.PUBLISH)


@dataclass(frozen=True)
class Chain:
    """All final runs of a lake, oldest first, as of the time of reading."""

    entries: tuple[ChainEntry, ...] = ()

    @property
    def head(self) -> ChainEntry | None:
        """The newest entry."""
        return self.entries[-1] if self.entries else None

    @cached_property
    def current(self) -> dict[date, ChainEntry]:
        """The current run of each date, ascending: the newest that was not rolled back."""
        found: dict[date, ChainEntry] = {}
        for entry in self.entries:
            if entry.kind is EntryKind.RUN:
                found[entry.day] = entry
            else:
                found.pop(entry.day, None)
        return dict(sorted(found.items()))

    def run_of(self, day: date) -> ChainEntry | None:
        """The current run of `day`."""
        return self.current.get(day)

    def before(self, day: date) -> tuple[ChainEntry, ...]:
        """The current runs of earlier dates, ascending: `day` does not take their objects again."""
        return tuple(entry for found, entry in self.current.items() if found < day)

    def after(self, day: date) -> tuple[ChainEntry, ...]:
        """The current runs of later dates, ascending."""
        return tuple(entry for found, entry in self.current.items() if found > day)

    def state_before(self, day: date) -> str:
        """The state that a run of `day` starts from: that of the nearest earlier date."""
        earlier = self.before(day)
        return earlier[-1].state_out if earlier else EMPTY_STATE

    def run_with_state(self, state: str) -> ChainEntry | None:
        """The newest run that ended in `state`: its folder holds it."""
        return next((entry for entry in reversed(self.entries) if entry.state_out == state), None)

    def stale(self) -> tuple[ChainEntry, ...]:
        """Runs whose start is no longer their predecessor's end: a backfill has to run them again."""
        return tuple(entry for day, entry in self.current.items() if entry.state_in != self.state_before(day))

    def is_taken_back(self, day: date, config: str) -> bool:
        """Whether the last run of `day` was rolled back, and was run with other settings than `config`."""
        last = next((entry for entry in reversed(self.entries) if entry.day == day), None)
        return last is not None and last.kind is EntryKind.ROLLBACK and last.config != config

    def check_turn(self, day: date) -> None:
        """Raises `OutOfTurn` if the date has no run but later dates have."""
        if self.run_of(day) is None and self.after(day):
            later = self.after(day)[0].run_id
            raise OutOfTurn(
                f"{day}: run {later} of a later date is final already. From sources with 'dates', "
                f"onceover backfill --from {day} --to {day} can run the date; a source without 'dates' shows "
                "only what it has now, which the next run takes. If that later date was a mistake: "
                f"onceover rollback {later}"
            )

    def check_last(self, day: date) -> None:
        """Raises `OutOfTurn` if runs of later dates have started from the state of `day`."""
        if self.after(day):
            later = self.after(day)[-1].run_id
            raise OutOfTurn(f"{day}: run {later} of a later date builds upon it; roll that one back first")

    def is_final(self, run_id: str, last_step: Step) -> bool:
        """Whether this run is the current one of its date and includes `last_step`."""
        return any(
            entry.run_id == run_id and STEPS.index(entry.last_step) >= STEPS.index(last_step)
            for entry in self.current.values()
        )


def read_chain(lake: ObjectStore) -> Chain:
    """The chain as it is now; raises `BrokenChain` if an entry is missing or does not follow."""
    keys = [found.key for found in lake.list(CHAIN)]
    with ThreadPoolExecutor(READERS) as readers:
        found = zip(keys, readers.map(lake.read, keys), strict=True)
        entries = tuple(_read_entry(data, source=lake.url_of(key)) for key, data in found)
    for problem in _breaks(entries):
        raise BrokenChain(f"{lake.url}/{CHAIN}: {problem}")
    return Chain(entries)


def read_entries(lake: ObjectStore) -> tuple[Chain, list[str]]:
    """All readable entries, and a sentence for each entry that is damaged, missing or does not follow."""
    entries, problems = list[ChainEntry](), list[str]()
    for key in [found.key for found in lake.list(CHAIN)]:
        try:
            entries.append(_read_entry(lake.read(key), source=lake.url_of(key)))
        except Damaged as error:
            problems.append(str(error))
    return Chain(tuple(entries)), [*problems, *_breaks(tuple(entries))]


def make_final(
    lake: ObjectStore,
    chain: Chain,
    inputs: RunInputs,
    *,
    state_out: str,
    last_step: Step,
    outputs: str,
) -> ChainEntry:
    """Makes a run final, in one step; a repeated call for the same run changes nothing.

    Raises `ChainConflict` if the chain has grown since it was read, or the run started from another state.
    """
    if inputs.state_in != chain.state_before(inputs.day):
        raise ChainConflict(
            f"{inputs.run_id}: started from a state that is no longer the one before its date"
        )
    replaced = chain.run_of(inputs.day)
    entry = ChainEntry(
        **_place_after(chain),
        kind=EntryKind.RUN,
        run_id=inputs.run_id,
        day=inputs.day,
        manifest=inputs.manifest,
        config=inputs.config,
        state_in=inputs.state_in,
        state_out=state_out,
        last_step=last_step,
        outputs=outputs,
        replaces=replaced.run_id if replaced and replaced.run_id != inputs.run_id else "",
    )
    return _append(lake, chain, entry)


def take_back(lake: ObjectStore, chain: Chain, run_id: str) -> None:
    """Appends the rollback of a run; a run that is not final needs no entry.

    Raises `OutOfTurn` if later dates have started from its state.
    """
    current = next((entry for entry in chain.current.values() if entry.run_id == run_id), None)
    if current is None:
        return
    chain.check_last(current.day)
    entry = replace(current, **_place_after(chain), kind=EntryKind.ROLLBACK, replaces="")
    if not lake.put_if_absent(chain_key(entry.number), entry.to_bytes()):
        raise ChainConflict(f"{run_id}: another run became final first; read the chain again")


def _append(lake: ObjectStore, chain: Chain, entry: ChainEntry) -> ChainEntry:
    current = chain.run_of(entry.day)
    if current is not None and _same_run(current, entry):
        return current
    if not lake.put_if_absent(chain_key(entry.number), entry.to_bytes()):
        raise ChainConflict(f"{entry.run_id}: another run became final first; run again to follow it")
    return entry


def _same_run(one: ChainEntry, other: ChainEntry) -> bool:
    return (one.run_id, one.state_out, one.outputs) == (other.run_id, other.state_out, other.outputs)


def _place_after(chain: Chain) -> dict[str, Any]:
    head = chain.head
    return {"number": head.number + 1 if head else 1, "parent": head.digest if head else ""}


def _read_entry(data: bytes, *, source: str) -> ChainEntry:
    with understood(source):
        plain = json.loads(data)
        typed = {
            "kind": EntryKind(plain["kind"]),
            "day": date.fromisoformat(plain["day"]),
            "last_step": Step(plain["last_step"]),
        }
        return ChainEntry(**{**plain, **typed})


def _breaks(entries: tuple[ChainEntry, ...]) -> Iterator[str]:
    parent = ""
    for number, entry in enumerate(entries, start=1):
        if entry.number != number:
            yield f"entry {number} is missing"
        if entry.parent != parent:
            yield f"entry {entry.number} does not follow from the one before"
        parent = entry.digest
