"""The parked batches of a partition, as arrays that kernels read and write in place.

They are found by producer, epoch and first sequence through a hash; batches with the same key form a chain in
the order in which they came. A place is used once, until the room is emptied into another.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from spark_jobs.kernels.compile import helper, kernel
from spark_jobs.kernels.decisions import BatchColumns, DecisionColumns, allocate_decisions
from spark_jobs.kernels.producers import Slots

NOBODY = -1
USED, HELD_STATE, FREED = 0, 1, 2
"""What `ParkedArrays.counts` counts."""
_SPREAD = -7046029254386353131
_FIRST_CAPACITY = 1024

Int64s = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


class ParkedArrays(NamedTuple):
    """The arrays, one place per batch parked since they were last tidied.

    `slots` hold (a place with the key, first and last of its chain); `counts` are places used, parked
    batches, and batches freed. `freed` lists the places of freed ones in order, `after` what arrival freed
    each.
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
    while room.slots[slot, 0] != NOBODY:
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
    """The batch at `place` joins the end of its chain."""
    batches = room.batches
    slot = slot_of(
        room, batches.producer_id[place], batches.producer_epoch[place], batches.base_sequence[place]
    )
    room.chain[place] = NOBODY
    if room.slots[slot, 0] == NOBODY:
        room.slots[slot, 0] = place
    if room.slots[slot, 1] == NOBODY:
        room.slots[slot, 1] = place
    else:
        room.chain[room.slots[slot, 2]] = place
    room.slots[slot, 2] = place
    room.counts[HELD_STATE] += 1


@helper
def leave(room: ParkedArrays, place: int) -> None:
    """The batch at `place` leaves the middle of its chain."""
    batches = room.batches
    slot = slot_of(
        room, batches.producer_id[place], batches.producer_epoch[place], batches.base_sequence[place]
    )
    before, at = NOBODY, room.slots[slot, 1]
    while at != place:
        before, at = at, room.chain[at]
    if before == NOBODY:
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
    room.counts[HELD_STATE] -= 1


@helper
def lowest(room: ParkedArrays, producer_id: int) -> int:
    """The place of the producer's batch with the lowest epoch and sequence, or `NOBODY`."""
    batches, found = room.batches, NOBODY
    for place in range(room.counts[USED]):
        if not room.gone[place] and batches.producer_id[place] == producer_id:
            is_lower = found == NOBODY or batches.producer_epoch[place] < batches.producer_epoch[found]
            if not is_lower and batches.producer_epoch[place] == batches.producer_epoch[found]:
                is_lower = batches.base_sequence[place] < batches.base_sequence[found]
            if is_lower:
                found = place
    return found


@helper
def park(room: ParkedArrays, batches: BatchColumns, index: int) -> None:
    """The batch at `index` of its chunk takes the next place."""
    place, in_parking = room.counts[USED], room.batches
    in_parking.base_offset[place] = batches.base_offset[index]
    in_parking.attributes[place] = batches.attributes[index]
    in_parking.last_offset_delta[place] = batches.last_offset_delta[index]
    in_parking.max_timestamp[place] = batches.max_timestamp[index]
    in_parking.producer_id[place] = batches.producer_id[index]
    in_parking.producer_epoch[place] = batches.producer_epoch[index]
    in_parking.base_sequence[place] = batches.base_sequence[index]
    in_parking.record_count[place] = batches.record_count[index]
    in_parking.control_type[place] = batches.control_type[index]
    in_parking.coordinator_epoch[place] = batches.coordinator_epoch[index]
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
    """Room for at least so many."""
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
        chain=np.full(capacity, NOBODY, dtype=np.int64),
        gone=np.zeros(capacity, dtype=np.bool_),
        slots=np.full((slots, 3), NOBODY, dtype=np.int64),
        freed=np.zeros(capacity, dtype=np.int64),
        after=np.zeros(capacity, dtype=np.int64),
        counts=np.zeros(3, dtype=np.int64),
    )


def larger_room(room: ParkedArrays) -> ParkedArrays:
    """The same room with twice as many places."""
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


def parked_arrays(in_parking: BatchColumns) -> ParkedArrays:
    """Arrays with these batches, and room for as many more."""
    room = no_parked(2 * in_parking.rows)
    for name in BatchColumns._fields:
        getattr(room.batches, name)[: in_parking.rows] = getattr(in_parking, name)
    room.counts[USED] = in_parking.rows
    _park(room)
    return room
