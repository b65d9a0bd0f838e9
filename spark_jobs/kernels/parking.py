"""Parks batches until the sequence gap before them fills: the twin of `kafka.producers.parking`.

Call it with consecutive chunks of one partition, the same `ParkedBatches` and the same `ProducerTable`.
"""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from spark_jobs.kafka.formats.record_batch import CONTROL_FLAG, NO_PRODUCER_ID, NO_SEQUENCE, NO_TIMESTAMP
from spark_jobs.kafka.producers.producer_state import NO_OFFSET
from spark_jobs.kafka.producers.verdict import VERDICTS, Rules, Verdict
from spark_jobs.kernels.admission import (
    ACCEPTED,
    OUT_OF_ORDER,
    BatchColumns,
    Conditions,
    DecisionColumns,
    KernelProducers,
    allocate_decisions,
    batch_columns,
    conditions_of,
    decide,
    expected_sequence,
    increment_sequence,
    is_at_or_before,
    is_full,
    judge,
    known_of,
    last_sequence,
    row_of,
    store,
)
from spark_jobs.kernels.compile import helper, kernel
from spark_jobs.kernels.producers import NO_ROW, ProducerTable, Slots, find_row

NO_PLACE = -1
USED, IN_PARKING, FREED = 0, 1, 2
"""Indexes into `ParkedArrays.counts`."""
_SPREAD = -7046029254386353131
_FIRST_CAPACITY = 1024

Int64s = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


class ParkedArrays(NamedTuple):
    """The parked batches of a partition as arrays, one place per batch parked since the last `tidy`.

    `slots` hold (a place with the key, first and last of its chain); `counts` are places used, parked
    batches, and freed batches. `freed` lists the places of freed batches in order, `after` the arrival that
    freed each.
    """

    batches: BatchColumns
    decisions: DecisionColumns
    arrival: Int64s
    chain: Int64s
    gone: Flags
    slots: Slots
    freed: Int64s
    after: Int64s
    counts: Int64s


@helper
def slot_of(room: ParkedArrays, producer_id: int, epoch: int, sequence: int) -> int:
    """The slot with this key, or the free one where it would go."""
    mask = len(room.slots) - 1
    slot = ((producer_id * 31 + epoch) * 31 + sequence) * _SPREAD >> 20 & mask
    while room.slots[slot, 0] != NO_PLACE:
        place = room.slots[slot, 0]
        if (
            room.batches.producer_id[place] == producer_id
            and room.batches.producer_epoch[place] == epoch
            and room.batches.base_sequence[place] == sequence
        ):
            return slot
        slot = (slot + 1) & mask
    return slot


@helper
def _enter(room: ParkedArrays, place: int) -> None:
    """Adds the batch at `place` to the end of its chain."""
    batches = room.batches
    slot = slot_of(
        room, batches.producer_id[place], batches.producer_epoch[place], batches.base_sequence[place]
    )
    room.chain[place] = NO_PLACE
    if room.slots[slot, 0] == NO_PLACE:
        room.slots[slot, 0] = place
    if room.slots[slot, 1] == NO_PLACE:
        room.slots[slot, 1] = place
    else:
        room.chain[room.slots[slot, 2]] = place
    room.slots[slot, 2] = place
    room.counts[IN_PARKING] += 1


@helper
def leave(room: ParkedArrays, place: int) -> None:
    """Removes the batch at `place` from the middle of its chain."""
    batches = room.batches
    slot = slot_of(
        room, batches.producer_id[place], batches.producer_epoch[place], batches.base_sequence[place]
    )
    before, at = NO_PLACE, room.slots[slot, 1]
    while at != place:
        before, at = at, room.chain[at]
    if before == NO_PLACE:
        room.slots[slot, 1] = room.chain[place]
    else:
        room.chain[before] = room.chain[place]
    if room.slots[slot, 2] == place:
        room.slots[slot, 2] = before
    free(room, place)


@helper
def free(room: ParkedArrays, place: int) -> None:
    """Removes the batch at `place`."""
    room.gone[place] = True
    room.counts[IN_PARKING] -= 1


@helper
def lowest(room: ParkedArrays, producer_id: int) -> int:
    """The place of the producer's batch with the lowest epoch and sequence, or `NO_PLACE`."""
    batches, found = room.batches, NO_PLACE
    for place in range(room.counts[USED]):
        if not room.gone[place] and batches.producer_id[place] == producer_id:
            is_lower = found == NO_PLACE or batches.producer_epoch[place] < batches.producer_epoch[found]
            if not is_lower and batches.producer_epoch[place] == batches.producer_epoch[found]:
                is_lower = batches.base_sequence[place] < batches.base_sequence[found]
            if is_lower:
                found = place
    return found


@helper
def park(room: ParkedArrays, batches: BatchColumns, index: int) -> None:
    """Stores the batch at `index` of its chunk in the next place."""
    place, parked = room.counts[USED], room.batches
    parked.base_offset[place] = batches.base_offset[index]
    parked.attributes[place] = batches.attributes[index]
    parked.last_offset_delta[place] = batches.last_offset_delta[index]
    parked.max_timestamp[place] = batches.max_timestamp[index]
    parked.producer_id[place] = batches.producer_id[index]
    parked.producer_epoch[place] = batches.producer_epoch[index]
    parked.base_sequence[place] = batches.base_sequence[index]
    parked.record_count[place] = batches.record_count[index]
    parked.control_type[place] = batches.control_type[index]
    parked.coordinator_epoch[place] = batches.coordinator_epoch[index]
    room.gone[place] = False
    room.arrival[place] = index
    room.counts[USED] += 1
    _enter(room, place)


@kernel
def _park(room: ParkedArrays) -> None:
    for place in range(room.counts[USED]):
        if not room.gone[place]:
            _enter(room, place)


def no_parked(places: int) -> ParkedArrays:
    """Empty arrays with at least this many places."""
    capacity = max(places, _FIRST_CAPACITY)
    slots = 1 << (2 * capacity - 1).bit_length()
    types = (
        np.int64,
        np.int16,
        np.int32,
        np.int64,
        np.int64,
        np.int16,
        np.int32,
        np.int32,
        np.int16,
        np.int32,
    )
    return ParkedArrays(
        batches=BatchColumns._make(np.zeros(capacity, dtype=kind) for kind in types),
        decisions=allocate_decisions(capacity),
        arrival=np.zeros(capacity, dtype=np.int64),
        chain=np.full(capacity, NO_PLACE, dtype=np.int64),
        gone=np.zeros(capacity, dtype=np.bool_),
        slots=np.full((slots, 3), NO_PLACE, dtype=np.int64),
        freed=np.zeros(capacity, dtype=np.int64),
        after=np.zeros(capacity, dtype=np.int64),
        counts=np.zeros(3, dtype=np.int64),
    )


def larger_arrays(room: ParkedArrays) -> ParkedArrays:
    """A copy with twice as many places."""
    used = int(room.counts[USED])
    larger = no_parked(2 * room.chain.size)
    for name in ("arrival", "gone", "freed", "after"):
        getattr(larger, name)[:used] = getattr(room, name)
    for part in ("batches", "decisions"):
        for name in getattr(room, part)._fields:
            getattr(getattr(larger, part), name)[:used] = getattr(getattr(room, part), name)
    larger.counts[USED], larger.counts[FREED] = used, room.counts[FREED]
    _park(larger)
    return larger


def parked_arrays(parked: BatchColumns) -> ParkedArrays:
    """Arrays with these batches, and places for as many more."""
    room = no_parked(2 * parked.rows)
    for name in BatchColumns._fields:
        getattr(room.batches, name)[: parked.rows] = getattr(parked, name)
    room.counts[USED] = parked.rows
    _park(room)
    return room


PARKED = VERDICTS.index(Verdict.PARKED)


@helper
def _waits(producer: Any, is_new: bool, batches: BatchColumns, index: int, verdict: int) -> bool:
    """Whether later batches can change the verdict."""
    is_control = batches.attributes[index] & CONTROL_FLAG != 0
    if is_control or batches.producer_id[index] <= NO_PRODUCER_ID:
        return False
    first, epoch = batches.base_sequence[index], batches.producer_epoch[index]
    if verdict == ACCEPTED:
        return is_new and first != 0
    if verdict != OUT_OF_ORDER:
        return False
    if is_new or producer.producer_epoch != epoch or producer.batches == 0:
        return True
    return not is_at_or_before(first, last_sequence(producer))


@helper
def _decide_freed(
    known: KernelProducers, room: ParkedArrays, place: int, arrival: int, conditions: Conditions
) -> int:
    """Decides a batch that has left its chain; returns its producer's row."""
    row, is_new = row_of(known, room.batches.producer_id[place])
    decide(known, row, is_new, room.batches, place, conditions, room.decisions)
    room.freed[room.counts[FREED]] = place
    room.after[room.counts[FREED]] = arrival
    room.counts[FREED] += 1
    return row


@helper
def _release(
    known: KernelProducers, room: ParkedArrays, row: int, arrival: int, conditions: Conditions
) -> None:
    """Decides parked batches at the producer's next sequence, repeatedly."""
    while True:
        producer = known.rows[row]
        following = increment_sequence(last_sequence(producer), 1)
        slot = slot_of(room, producer.producer_id, producer.producer_epoch, following)
        place = room.slots[slot, 1] if room.slots[slot, 0] != NO_PLACE else NO_PLACE
        if place == NO_PLACE:
            return
        room.slots[slot, 1] = NO_PLACE
        room.slots[slot, 2] = NO_PLACE
        while place != NO_PLACE:
            free(room, place)
            _decide_freed(known, room, place, arrival, conditions)
            place = room.chain[place]


@helper
def _begin(
    known: KernelProducers, room: ParkedArrays, place: int, arrival: int, conditions: Conditions
) -> None:
    """Decides a parked batch although its gap was not filled."""
    leave(room, place)
    row = _decide_freed(known, room, place, arrival, conditions)
    if room.decisions.verdict[place] == ACCEPTED:
        _release(known, room, row, arrival, conditions)


@kernel
def _arrive(
    batches: BatchColumns,
    start: int,
    may_park: Flags,
    known: KernelProducers,
    room: ParkedArrays,
    most: int,
    conditions: Conditions,
    decisions: DecisionColumns,
) -> int:
    """Number of batches decided or parked; stops before one without a free row or place."""
    for index in range(start, batches.producer_id.size):
        if is_full(known) or room.counts[USED] >= room.chain.size:
            return index
        row, is_new = row_of(known, batches.producer_id[index])
        verdict, _, _ = judge(known.rows[row], batches, index, conditions)
        if may_park[index] and _waits(known.rows[row], is_new, batches, index, verdict):
            if room.counts[IN_PARKING] < most:
                park(room, batches, index)
                decisions.verdict[index] = PARKED
                continue
            first = lowest(room, batches.producer_id[index]) if is_new else NO_PLACE
            if first != NO_PLACE:
                _begin(known, room, first, index - 1, conditions)
                row, is_new = row_of(known, batches.producer_id[index])
        verdict = decide(known, row, is_new, batches, index, conditions, decisions)
        is_control = batches.attributes[index] & CONTROL_FLAG != 0
        if verdict == ACCEPTED and not is_control and batches.producer_id[index] > NO_PRODUCER_ID:
            _release(known, room, row, index, conditions)
    return batches.producer_id.size


class Beginners(NamedTuple):
    """Parked batches in the order in which unknown producers begin with them.

    `places` are in arrival order, each with the number of its producer. `by_age` has them by producer, epoch
    and sequence; `following` is the index in it of each producer's next one.
    """

    places: Int64s
    producer: Int64s
    by_age: Int64s
    following: Int64s


@kernel
def _begin_unknown(
    beginners: Beginners,
    start: int,
    known: KernelProducers,
    room: ParkedArrays,
    arrival: int,
    conditions: Conditions,
) -> int:
    """At the end of a run unknown producers begin, each with its lowest batch that is accepted."""
    for number in range(start, beginners.places.size):
        if is_full(known):
            return number
        place, producer = beginners.places[number], beginners.producer[number]
        while not room.gone[place] and find_row(room.batches.producer_id[place], known.slots) == NO_ROW:
            at = beginners.following[producer]
            while room.gone[beginners.by_age[at]]:
                at += 1
            beginners.following[producer] = at + 1
            _begin(known, room, beginners.by_age[at], arrival, conditions)
    return beginners.places.size


@kernel
def _give_up(
    start: int, known: KernelProducers, room: ParkedArrays, arrival: int, conditions: Conditions
) -> int:
    """Decides parked batches whose gap can no longer fill."""
    for place in range(start, room.counts[USED]):
        if is_full(known):
            return place
        if not room.gone[place]:
            row, is_new = row_of(known, room.batches.producer_id[place])
            verdict, _, _ = judge(known.rows[row], room.batches, place, conditions)
            if not _waits(known.rows[row], is_new, room.batches, place, verdict):
                _begin(known, room, place, arrival, conditions)
    return int(room.counts[USED])


@kernel
def _stay(known: KernelProducers, room: ParkedArrays, conditions: Conditions) -> None:
    """Writes the expected sequence of the batches that stay parked."""
    for place in range(room.counts[USED]):
        if not room.gone[place]:
            row, _ = row_of(known, room.batches.producer_id[place])
            producer, decisions = known.rows[row], room.decisions
            epoch = room.batches.producer_epoch[place]
            _, missing, _ = judge(producer, room.batches, place, conditions)
            expected = expected_sequence(producer, epoch, False)
            decisions.verdict[place] = PARKED
            decisions.base_offset[place] = NO_OFFSET
            decisions.last_offset[place] = NO_OFFSET
            decisions.expected_sequence[place] = missing if missing != NO_SEQUENCE else expected
            decisions.expected_epoch[place] = producer.producer_epoch
            decisions.log_append_time[place] = NO_TIMESTAMP
            decisions.txn_first_offset[place] = NO_OFFSET


class Freed(NamedTuple):
    """Batches that are no longer parked: their places, the arrival that freed them, and their decisions."""

    places: Int64s
    after: Int64s
    decisions: DecisionColumns


class ParkedBatches:
    """The parked batches of one partition; places count from 0 and change only by `tidy`."""

    def __init__(self, parked: BatchColumns, *, rules: Rules, most: int) -> None:
        """`parked` are batches of earlier runs; at most `most` are parked."""
        self._most, self._conditions = most, conditions_of(rules)
        self._room = parked_arrays(parked)

    @property
    def parked(self) -> int:
        """How many are parked."""
        return int(self._room.counts[IN_PARKING])

    @property
    def used(self) -> int:
        """Number of places used since the last `tidy`."""
        return int(self._room.counts[USED])

    def arrive(
        self, batches: BatchColumns, may_park: Flags, producers: ProducerTable
    ) -> tuple[DecisionColumns, Freed]:
        """Decisions for the batches, `PARKED` for those in the next places, and the batches freed."""
        decisions, judged = allocate_decisions(batches.rows), 0
        while judged < batches.rows:
            known = self._with_room(producers)
            judged = _arrive(
                batches, judged, may_park, known, self._room, self._most, self._conditions, decisions
            )
            store(producers, known)
        return decisions, self._take_freed()

    def end(self, producers: ProducerTable) -> Freed:
        """Ends the run: decides all batches that it can; `stay` returns the others."""
        beginners, number = self._beginners(), 0
        while number < len(beginners.places):
            known = self._with_room(producers)
            number = _begin_unknown(beginners, number, known, self._room, NO_PLACE, self._conditions)
            store(producers, known)
        place = 0
        while place < self.used:
            known = self._with_room(producers)
            place = _give_up(place, known, self._room, NO_PLACE, self._conditions)
            store(producers, known)
        return self._take_freed()

    def stay(self, producers: ProducerTable) -> tuple[Int64s, DecisionColumns]:
        """The places of the batches that stay parked, and the sequences that they need."""
        _stay(self._with_room(producers), self._room, self._conditions)
        places = np.flatnonzero(~self._room.gone[: self.used])
        return places, _select(self._room.decisions, places)

    def parked_since(self, place: int) -> Int64s:
        """The numbers, in the chunk that brought them, of the batches from `place` on."""
        return self._room.arrival[place : self.used].copy()

    def tidy(self) -> Int64s:
        """Renumbers the places; returns the old places of the parked batches, in their new order."""
        places = np.flatnonzero(~self._room.gone[: self.used])
        parked = batch_columns(column[places] for column in self._room.batches)
        self._room = parked_arrays(parked)
        return places

    def _with_room(self, producers: ProducerTable) -> KernelProducers:
        """The producers, with a free row and a free place."""
        if producers.count == len(producers.room):
            producers.grow()
        if self.used == self._room.chain.size:
            self._room = larger_arrays(self._room)
        return known_of(producers)

    def _beginners(self) -> Beginners:
        """The parked batches, in the order in which unknown producers would begin with them."""
        places = np.flatnonzero(~self._room.gone[: self.used])
        batches = self._room.batches
        producer_id = batches.producer_id[places]
        order = np.lexsort(
            (places, batches.base_sequence[places], batches.producer_epoch[places], producer_id)
        )
        producers, following = np.unique(producer_id[order], return_index=True)
        return Beginners(
            places=places,
            producer=np.searchsorted(producers, producer_id),
            by_age=places[order],
            following=following,
        )

    def _take_freed(self) -> Freed:
        room, count = self._room, int(self._room.counts[FREED])
        places = room.freed[:count].copy()
        room.counts[FREED] = 0
        decisions = _select(room.decisions, places)
        return Freed(places=places, after=room.after[:count].copy(), decisions=decisions)


def _select(decisions: DecisionColumns, places: Int64s) -> DecisionColumns:
    return DecisionColumns._make(getattr(decisions, name)[places] for name in DecisionColumns._fields)
