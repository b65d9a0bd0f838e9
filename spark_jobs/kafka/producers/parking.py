"""`on_gap: park`: batches after a sequence gap are parked until the gap fills.

For captures of several gateways, where arrival order is not the order of sending. `admission` decides on
every batch; one that it would reject as out of order is parked if later batches can fill the gap. A broker
lets an unknown producer begin at any sequence. Here its batches are parked for sequence 0 until the run ends;
then it begins at its lowest sequence that is accepted. Under TV2 a transaction may begin at 0 only, so all
its batches may be rejected. Batches that still have a gap before them stay parked.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from spark_jobs.kafka.formats.record_batch import RecordBatchHeader
from spark_jobs.kafka.producers.admission import fold
from spark_jobs.kafka.producers.producer_state import ProducerStateEntry, ProducerStates
from spark_jobs.kafka.producers.sequence import increment_sequence, is_at_or_before
from spark_jobs.kafka.producers.verdict import BatchRow, Decision, Rules, Verdict

Decided = tuple[int, Decision]
"""The index of a batch (those parked by earlier runs come first), and its decision."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ParkingFold:
    """All batches in the order in which they were decided; the last ones, `parked`, stay parked."""

    judged: tuple[Decided, ...]
    states: ProducerStates


def fold_with_parking(
    states: ProducerStates,
    parked: Sequence[BatchRow],
    rows: Sequence[BatchRow],
    *,
    rules: Rules,
    most: int,
    never_parked: frozenset[int] = frozenset(),
) -> ParkingFold:
    """Folds a run: `parked` batches of earlier runs, then `rows` in arrival order.

    At most `most` batches are parked: beyond that, an unknown producer begins at once and a gap is rejected.
    The batches at the indexes `never_parked` are never parked.
    """
    run = _Run(states, (*parked, *rows), rules, most)
    run.parked = list(range(len(parked)))
    for place in range(len(parked), len(parked) + len(rows)):
        run.arrive(place, is_parkable=place not in never_parked)
    run.end()
    return ParkingFold(judged=tuple(run.judged), states=run.states)


def may_come_right(entry: ProducerStateEntry | None, header: RecordBatchHeader) -> bool:
    """Whether batches that are still to come can close the gap before an out-of-order one."""
    if entry is None or entry.producer_epoch != header.producer_epoch or not entry.batches:
        return True
    return not is_at_or_before(header.base_sequence, entry.last_sequence)


class _Run:
    """A partition during a fold with parking."""

    def __init__(self, states: ProducerStates, rows: Sequence[BatchRow], rules: Rules, most: int) -> None:
        self.states, self.judged, self.parked = states, list[Decided](), list[int]()
        self._rows, self._rules, self._most = rows, rules, most

    def arrive(self, place: int, *, is_parkable: bool) -> None:
        """Decide a batch, or park it; then decide the parked batches that it releases."""
        if is_parkable and self._waits(place):
            if len(self.parked) < self._most:
                self.parked.append(place)
                return
            if self._entry(place) is None:
                self._begin(self._rows[place].header.producer_id)
        self._judge(place)

    def end(self) -> None:
        """Ends the run: unknown producers start, batches whose gap can no longer fill are rejected."""
        for place in self.parked.copy():
            while place in self.parked and self._entry(place) is None:
                self._begin(self._rows[place].header.producer_id)
        for place in self.parked.copy():
            if place in self.parked and not self._waits(place):
                self.parked.remove(place)
                self._judge(place)
        self.judged += [(place, _parked(self._decide(place)[0])) for place in self.parked]

    def _begin(self, producer_id: int) -> None:
        """An unknown producer begins at the lowest sequence of its parked batches, if it has any."""
        own = [place for place in self.parked if self._rows[place].header.producer_id == producer_id]
        if own:
            first = min(own, key=self._age)
            self.parked.remove(first)
            self._judge(first)

    def _age(self, place: int) -> tuple[int, int, int]:
        header = self._rows[place].header
        return header.producer_epoch, header.base_sequence, place

    def _waits(self, place: int) -> bool:
        header, entry = self._rows[place].header, self._entry(place)
        if header.is_control or not header.has_producer_id:
            return False
        verdict = self._decide(place)[0].verdict
        begins_late = entry is None and verdict is Verdict.ACCEPTED and header.base_sequence != 0
        return begins_late or (verdict is Verdict.OUT_OF_ORDER and may_come_right(entry, header))

    def _judge(self, place: int) -> None:
        """Decide a batch, and then the parked ones that continue its sequence."""
        self._decide_for_good(place)
        decision, header = self.judged[-1][1], self._rows[place].header
        while decision.verdict is Verdict.ACCEPTED and header.has_producer_id and not header.is_control:
            following = self._following(self.states.producers[header.producer_id])
            for freed in following:
                self.parked.remove(freed)
                self._decide_for_good(freed)
            if not following:
                return

    def _following(self, entry: ProducerStateEntry) -> list[int]:
        """Parked batches that begin with the producer's next sequence, in arrival order."""
        key = (entry.producer_id, entry.producer_epoch, increment_sequence(entry.last_sequence, 1))
        return [place for place in self.parked if _sequence_of(self._rows[place].header) == key]

    def _decide_for_good(self, place: int) -> None:
        decision, self.states = self._decide(place)
        self.judged.append((place, decision))

    def _entry(self, place: int) -> ProducerStateEntry | None:
        return self.states.producers.get(self._rows[place].header.producer_id)

    def _decide(self, place: int) -> tuple[Decision, ProducerStates]:
        (decision,), states = fold(self.states, [self._rows[place]], rules=self._rules)
        return decision, states


def _sequence_of(header: RecordBatchHeader) -> tuple[int, int, int]:
    return header.producer_id, header.producer_epoch, header.base_sequence


def _parked(decision: Decision) -> Decision:
    """A broker's decision, changed into that of a parked batch."""
    return replace(decision, verdict=Verdict.PARKED, kafka_error=Verdict.PARKED.kafka_error)
