"""The broker's clock, as far as a recording tells it.

A reply on a LogAppendTime topic and a refused timestamp name the broker's time. Where no reply does, clients'
timestamps are all there is: most of a generator's batches carry its own "now", so the most frequent timestamp
stands for it, no more than an hour behind the newest (a broker refuses what is further ahead), and sleeps
move it on.
"""

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import accumulate

from spark_jobs.kafka.formats.record_batch import HEADER_SIZE, read_header
from tests.recordings.events import Event, Produce, Sleep
from tests.recordings.settings import TIMESTAMP_AFTER_MAX_MS

ALLOWED_RANGE = re.compile(r"should be within \[-?\d+, (\d+)\]")


class Clock:
    """Tells the broker's time in milliseconds at each event of one conversation."""

    def __init__(self, events: Sequence[Event], log_append_topics: frozenset[str]) -> None:
        facts = [
            (place, ms) for place, event in enumerate(events) for ms in _reported(event, log_append_topics)
        ]
        self.is_reported = bool(facts)
        facts = facts or list(_guess(events))
        self._places = [place for place, _ in facts]
        self._times = list(accumulate((ms for _, ms in facts), max))

    def at(self, place: int) -> int:
        """The time at the event with this place: the last one told, or else the first that will be."""
        if not self._times:
            return 0
        return self._times[max(bisect_right(self._places, place) - 1, 0)]


def _reported(event: Event, log_append_topics: frozenset[str]) -> Iterator[int]:
    """Times of the broker that the replies to `event` name."""
    if not isinstance(event, Produce):
        return
    for part in event.parts:
        reply = part.reply or {}
        if part.topic_partition.topic in log_append_topics and reply.get("log_append_time_ms", -1) >= 0:
            yield reply["log_append_time_ms"]
        for _, message in reply.get("record_errors") or ():
            found = ALLOWED_RANGE.search(message or "")
            if found:
                yield int(found[1]) - TIMESTAMP_AFTER_MAX_MS


def _guess(events: Sequence[Event]) -> Iterator[tuple[int, int]]:
    """The most frequent client timestamp so far, the later of two equally frequent, never far
    behind the newest, plus every sleep."""
    seen: Counter[int] = Counter()
    slept = 0
    for place, event in enumerate(events):
        if isinstance(event, Sleep):
            slept += event.milliseconds
        if isinstance(event, Produce):
            headers = (read_header(p.records) for p in event.parts if len(p.records) >= HEADER_SIZE)
            seen.update(header.max_timestamp - slept for header in headers)
        if seen:
            usual = max(seen, key=lambda ms: (seen[ms], ms))
            yield place, max(usual, max(seen) - TIMESTAMP_AFTER_MAX_MS) + slept
