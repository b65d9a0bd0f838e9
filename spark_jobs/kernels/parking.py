"""Batches that came too early wait until the gap before them fills: the twin of `protocol.parking`.

Call it with consecutive chunks of one partition, the same `WaitingRoom` and the same `ProducerTable`.
"""

from typing import Any, NamedTuple

import numpy as np

from spark_jobs.kernels.compile import helper, kernel
from spark_jobs.kernels.decisions import BatchColumns, DecisionColumns, allocate_decisions, batch_columns
from spark_jobs.kernels.producers import NO_ROW, ProducerTable, Rows, Slots, begin_row, find_row, insert_slot
from spark_jobs.kernels.rules import (
    ACCEPTED,
    CLIENT,
    COORDINATOR,
    DUPLICATE,
    INVALID_RECORD,
    NO_BATCH,
    OUT_OF_ORDER,
    apply_control,
    apply_data,
    expected_sequence,
    find_duplicate,
    is_valid_client_header,
    judge_control,
    judge_data,
    last_sequence,
    levels_of,
)
from spark_jobs.kernels.sequences import increment_sequence, is_at_or_before
from spark_jobs.kernels.waiting_room import (
    FREED,
    NOBODY,
    USED,
    WAITING,
    Flags,
    Int64s,
    Room,
    free,
    larger_room,
    leave,
    lowest,
    park,
    room_of,
    slot_of,
)
from spark_jobs.protocol.decision import Rules
from spark_jobs.protocol.producer_state import NO_OFFSET
from spark_jobs.protocol.record_batch import CONTROL_FLAG, NO_PRODUCER_ID, NO_SEQUENCE, NO_TIMESTAMP
from spark_jobs.protocol.verdict import VERDICTS, Verdict

PARKED = VERDICTS.index(Verdict.PARKED)


class Known(NamedTuple):
    """The partition's producers while a kernel works on them; `counts` are producers, and the end offset."""

    rows: Rows
    slots: Slots
    counts: Int64s


_PRODUCERS, _END_OFFSET = 0, 1


@helper
def _row_of(known: Known, producer_id: int) -> tuple[int, bool]:
    """The producer's row; an unknown one is judged in the next free row."""
    row = find_row(producer_id, known.slots) if producer_id > NO_PRODUCER_ID else NO_ROW
    if row != NO_ROW:
        return row, False
    begin_row(known.rows[known.counts[_PRODUCERS]], producer_id)
    return known.counts[_PRODUCERS], True


@helper
def _judge(producer: Any, batches: BatchColumns, index: int, levels: int) -> tuple[int, int, int]:
    """(verdict, the sequence that was missing, the remembered original) as the fold finds them."""
    epoch, first = batches.producer_epoch[index], batches.base_sequence[index]
    is_control = batches.attributes[index] & CONTROL_FLAG != 0
    if not is_control and not is_valid_client_header(batches, index):
        return INVALID_RECORD, NO_SEQUENCE, NO_BATCH
    if batches.producer_id[index] <= NO_PRODUCER_ID:
        return ACCEPTED, NO_SEQUENCE, NO_BATCH
    if is_control:
        return judge_control(producer, batches, index, COORDINATOR, levels), NO_SEQUENCE, NO_BATCH
    last = (
        NO_SEQUENCE if first == NO_SEQUENCE else increment_sequence(first, batches.last_offset_delta[index])
    )
    original = find_duplicate(producer, epoch, first, last)
    if original != NO_BATCH:
        return DUPLICATE, NO_SEQUENCE, original
    verdict, missing = judge_data(producer, batches, index, last, CLIENT, levels, True)
    return verdict, missing, NO_BATCH


@helper
def _waits(producer: Any, is_new: bool, batches: BatchColumns, index: int, verdict: int) -> bool:
    """Whether what is still to come can change the verdict."""
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
def _decide(
    known: Known, batches: BatchColumns, index: int, levels: int, decisions: DecisionColumns
) -> tuple[int, int]:
    """(verdict, row of the producer) of a batch that is decided for good."""
    producer_id, epoch = batches.producer_id[index], batches.producer_epoch[index]
    row, is_new = _row_of(known, producer_id)
    producer = known.rows[row]
    is_control = batches.attributes[index] & CONTROL_FLAG != 0
    delta, first = batches.last_offset_delta[index], batches.base_sequence[index]
    last = NO_SEQUENCE if first == NO_SEQUENCE else increment_sequence(first, delta)
    expected_epoch = producer.producer_epoch
    expected = expected_sequence(producer, epoch, is_control)
    verdict, missing, original = _judge(producer, batches, index, levels)
    offset, log_append_time, txn_first_offset = known.counts[_END_OFFSET], NO_TIMESTAMP, NO_OFFSET
    last_offset = offset + delta
    if verdict == DUPLICATE:
        last_offset = producer.last_offset[original]
        offset = last_offset - producer.offset_delta[original]
        log_append_time = producer.timestamp[original]
    elif verdict == ACCEPTED:
        known.counts[_END_OFFSET] = last_offset + 1
        if producer_id > NO_PRODUCER_ID:
            if is_control:
                txn_first_offset = apply_control(producer, batches, index)
            else:
                txn_first_offset = apply_data(producer, batches, index, last, offset)
            if is_new:
                insert_slot(producer_id, row, known.slots)
                known.counts[_PRODUCERS] += 1
    else:
        offset, last_offset = NO_OFFSET, NO_OFFSET
    decisions.verdict[index] = verdict
    decisions.base_offset[index] = offset
    decisions.last_offset[index] = last_offset
    decisions.expected_sequence[index] = missing if missing != NO_SEQUENCE else expected
    decisions.expected_epoch[index] = expected_epoch
    decisions.log_append_time[index] = log_append_time
    decisions.txn_first_offset[index] = txn_first_offset
    return verdict, row


@helper
def _decide_freed(known: Known, room: Room, place: int, arrival: int, levels: int) -> int:
    """Decides a batch that has left its chain; returns its producer's row."""
    _, row = _decide(known, room.batches, place, levels, room.decisions)
    room.freed[room.counts[FREED]] = place
    room.after[room.counts[FREED]] = arrival
    room.counts[FREED] += 1
    return row


@helper
def _release(known: Known, room: Room, row: int, arrival: int, levels: int) -> None:
    """Decides what waits for the producer's next sequence, and what waits for that, and so on."""
    while True:
        producer = known.rows[row]
        following = increment_sequence(last_sequence(producer), 1)
        slot = slot_of(room, producer.producer_id, producer.producer_epoch, following)
        place = room.slots[slot, 1] if room.slots[slot, 0] != NOBODY else NOBODY
        if place == NOBODY:
            return
        room.slots[slot, 1] = NOBODY
        room.slots[slot, 2] = NOBODY
        while place != NOBODY:
            free(room, place)
            _decide_freed(known, room, place, arrival, levels)
            place = room.chain[place]


@helper
def _begin(known: Known, room: Room, place: int, arrival: int, levels: int) -> None:
    """A waiting batch is decided though nothing has filled the gap before it."""
    leave(room, place)
    row = _decide_freed(known, room, place, arrival, levels)
    if room.decisions.verdict[place] == ACCEPTED:
        _release(known, room, row, arrival, levels)


@kernel
def _arrive(
    batches: BatchColumns,
    start: int,
    patient: Flags,
    known: Known,
    room: Room,
    most: int,
    levels: int,
    decisions: DecisionColumns,
) -> int:
    """Batches judged or parked; stops before one that could find no room, as a producer or as a batch."""
    for index in range(start, batches.producer_id.size):
        if known.counts[_PRODUCERS] >= known.rows.size or room.counts[USED] >= room.chain.size:
            return index
        row, is_new = _row_of(known, batches.producer_id[index])
        verdict, _, _ = _judge(known.rows[row], batches, index, levels)
        if patient[index] and _waits(known.rows[row], is_new, batches, index, verdict):
            if room.counts[WAITING] < most:
                park(room, batches, index)
                decisions.verdict[index] = PARKED
                continue
            first = lowest(room, batches.producer_id[index]) if is_new else NOBODY
            if first != NOBODY:
                _begin(known, room, first, index - 1, levels)
        verdict, row = _decide(known, batches, index, levels, decisions)
        is_control = batches.attributes[index] & CONTROL_FLAG != 0
        if verdict == ACCEPTED and not is_control and batches.producer_id[index] > NO_PRODUCER_ID:
            _release(known, room, row, index, levels)
    return batches.producer_id.size


@kernel
def _begin_unknown(first: Int64s, start: int, known: Known, room: Room, arrival: int, levels: int) -> int:
    """At the end of a night unknown producers begin, each with the batch that `first` names."""
    for number in range(start, first.size):
        if known.counts[_PRODUCERS] >= known.rows.size:
            return number
        place = first[number]
        if not room.gone[place] and find_row(room.batches.producer_id[place], known.slots) == NO_ROW:
            _begin(known, room, place, arrival, levels)
    return first.size


@kernel
def _give_up(start: int, known: Known, room: Room, arrival: int, levels: int) -> int:
    """What cannot come right any more is decided."""
    for place in range(start, room.counts[USED]):
        if known.counts[_PRODUCERS] >= known.rows.size:
            return place
        if not room.gone[place]:
            row, is_new = _row_of(known, room.batches.producer_id[place])
            verdict, _, _ = _judge(known.rows[row], room.batches, place, levels)
            if not _waits(known.rows[row], is_new, room.batches, place, verdict):
                _begin(known, room, place, arrival, levels)
    return int(room.counts[USED])


@kernel
def _stay(known: Known, room: Room, levels: int) -> None:
    """Writes down what the others wait for."""
    for place in range(room.counts[USED]):
        if not room.gone[place]:
            row, _ = _row_of(known, room.batches.producer_id[place])
            producer, decisions = known.rows[row], room.decisions
            epoch = room.batches.producer_epoch[place]
            _, missing, _ = _judge(producer, room.batches, place, levels)
            expected = expected_sequence(producer, epoch, False)
            decisions.verdict[place] = PARKED
            decisions.base_offset[place] = NO_OFFSET
            decisions.last_offset[place] = NO_OFFSET
            decisions.expected_sequence[place] = missing if missing != NO_SEQUENCE else expected
            decisions.expected_epoch[place] = producer.producer_epoch
            decisions.log_append_time[place] = NO_TIMESTAMP
            decisions.txn_first_offset[place] = NO_OFFSET


class Freed(NamedTuple):
    """Batches that have left the room: their places, after which arrival, and what became of them."""

    places: Int64s
    after: Int64s
    decisions: DecisionColumns


class WaitingRoom:
    """The batches of one partition that wait; places count from 0 and change only when it is tidied."""

    def __init__(self, waiting: BatchColumns, *, rules: Rules, most: int) -> None:
        """`waiting` are batches of earlier nights; at most `most` ever wait."""
        self._most, self._levels = most, levels_of(rules)
        self._room = room_of(waiting)

    @property
    def waiting(self) -> int:
        """How many wait."""
        return int(self._room.counts[WAITING])

    @property
    def used(self) -> int:
        """Places given out since the room was last tidied."""
        return int(self._room.counts[USED])

    def arrive(
        self, batches: BatchColumns, patient: Flags, producers: ProducerTable
    ) -> tuple[DecisionColumns, Freed]:
        """Decisions for the batches, `PARKED` for those that now take the next places, and who is freed."""
        decisions, judged = allocate_decisions(batches.rows), 0
        while judged < batches.rows:
            known = self._with_room(producers)
            judged = _arrive(batches, judged, patient, known, self._room, self._most, self._levels, decisions)
            _remember(producers, known)
        return decisions, self._take_freed()

    def end(self, producers: ProducerTable) -> Freed:
        """The night is over: who begins or gives up now; `stay` tells of the others."""
        first, number = self._beginners(), 0
        while number < len(first):
            known = self._with_room(producers)
            number = _begin_unknown(first, number, known, self._room, NOBODY, self._levels)
            _remember(producers, known)
        place = 0
        while place < self.used:
            known = self._with_room(producers)
            place = _give_up(place, known, self._room, NOBODY, self._levels)
            _remember(producers, known)
        return self._take_freed()

    def stay(self, producers: ProducerTable) -> tuple[Int64s, DecisionColumns]:
        """The places that wait on, and what they wait for."""
        _stay(self._with_room(producers), self._room, self._levels)
        places = np.flatnonzero(~self._room.gone[: self.used])
        return places, _select(self._room.decisions, places)

    def parked_since(self, place: int) -> Int64s:
        """The numbers, in the chunk that brought them, of the batches from `place` on."""
        return self._room.arrival[place : self.used].copy()

    def tidy(self) -> Int64s:
        """Gives out places anew; returns the old places of those that wait, in their new order."""
        places = np.flatnonzero(~self._room.gone[: self.used])
        waiting = batch_columns(column[places] for column in self._room.batches)
        self._room = room_of(waiting)
        return places

    def _with_room(self, producers: ProducerTable) -> Known:
        """The producers, with room for another one here and there."""
        if producers.count == len(producers.room):
            producers.grow()
        if self.used == self._room.chain.size:
            self._room = larger_room(self._room)
        return _known(producers)

    def _beginners(self) -> Int64s:
        """For each producer its lowest batch; producers in the order in which their first batch came."""
        places = np.flatnonzero(~self._room.gone[: self.used])
        batches = self._room.batches
        producer_id = batches.producer_id[places]
        order = np.lexsort(
            (places, batches.base_sequence[places], batches.producer_epoch[places], producer_id)
        )
        lowest = places[order][np.unique(producer_id[order], return_index=True)[1]]
        came_first = np.unique(producer_id, return_index=True)[1]
        found: Int64s = lowest[np.argsort(came_first)]
        return found

    def _take_freed(self) -> Freed:
        room, count = self._room, int(self._room.counts[FREED])
        places = room.freed[:count].copy()
        room.counts[FREED] = 0
        decisions = _select(room.decisions, places)
        return Freed(places=places, after=room.after[:count].copy(), decisions=decisions)


def _known(producers: ProducerTable) -> Known:
    counts = np.array([producers.count, producers.end_offset], dtype=np.int64)
    return Known(rows=producers.room, slots=producers.slots, counts=counts)


def _remember(producers: ProducerTable, known: Known) -> None:
    producers.count, producers.end_offset = (int(count) for count in known.counts)


def _select(decisions: DecisionColumns, places: Int64s) -> DecisionColumns:
    return DecisionColumns._make(getattr(decisions, name)[places] for name in DecisionColumns._fields)
