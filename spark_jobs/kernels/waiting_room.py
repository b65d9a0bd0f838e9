"""The batches of a partition that wait, as arrays that kernels read and write in place.

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
USED, WAITING, FREED = 0, 1, 2
"""What `Room.counts` counts."""
_SPREAD = -7046029254386353131
_FIRST_CAPACITY = 1024

Int64s = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


class Room(NamedTuple):
    """Arrays of the waiting room, one place per batch that ever waited since it was last tidied.

    `slots` hold (a place with the key, first and last of its chain); `counts` are places used, batches that
    wait, and batches freed. `freed` lists the places of freed ones in order, `after` what arrival freed each.
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
def slot_of(room: Room, producer_id: int, epoch: int, sequence: int) -> int:
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
def _enter(room: Room, place: int) -> None:
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
    room.counts[WAITING] += 1


@helper
def leave(room: Room, place: int) -> None:
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
def free(room: Room, place: int) -> None:
    """The batch at `place` waits no longer."""
    room.gone[place] = True
    room.counts[WAITING] -= 1


@helper
def lowest(room: Room, producer_id: int) -> int:
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
def park(room: Room, batches: BatchColumns, index: int) -> None:
    """The batch at `index` of its chunk takes the next place."""
    place, waiting = room.counts[USED], room.batches
    waiting.base_offset[place] = batches.base_offset[index]
    waiting.attributes[place] = batches.attributes[index]
    waiting.last_offset_delta[place] = batches.last_offset_delta[index]
    waiting.max_timestamp[place] = batches.max_timestamp[index]
    waiting.producer_id[place] = batches.producer_id[index]
    waiting.producer_epoch[place] = batches.producer_epoch[index]
    waiting.base_sequence[place] = batches.base_sequence[index]
    waiting.record_count[place] = batches.record_count[index]
    waiting.control_type[place] = batches.control_type[index]
    waiting.coordinator_epoch[place] = batches.coordinator_epoch[index]
    room.gone[place] = False
    room.arrival[place] = index
    room.counts[USED] += 1
    _enter(room, place)


@kernel
def _enter_waiting(room: Room) -> None:
    for place in range(room.counts[USED]):
        if not room.gone[place]:
            _enter(room, place)


def empty_room(places: int) -> Room:
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
    return Room(
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


def larger_room(room: Room) -> Room:
    """The same room with twice as many places."""
    used = int(room.counts[USED])
    larger = empty_room(2 * room.chain.size)
    for name in ("arrival", "gone", "freed", "after"):
        getattr(larger, name)[:used] = getattr(room, name)
    for part in ("batches", "decisions"):
        for name in getattr(room, part)._fields:
            getattr(getattr(larger, part), name)[:used] = getattr(getattr(room, part), name)
    larger.counts[USED], larger.counts[FREED] = used, room.counts[FREED]
    _enter_waiting(larger)
    return larger


def room_of(waiting: BatchColumns) -> Room:
    """A room in which these wait, and as many more could."""
    room = empty_room(2 * waiting.rows)
    for name in BatchColumns._fields:
        getattr(room.batches, name)[: waiting.rows] = getattr(waiting, name)
    room.counts[USED] = waiting.rows
    _enter_waiting(room)
    return room
