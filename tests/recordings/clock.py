"""The broker's clock, derived from a recording.

A reply on a LogAppendTime topic and a refused timestamp name the broker's time. Without such a reply only
clients' timestamps are known. Most of a generator's batches have its own "now", so the most frequent
timestamp is used, at most an hour behind the newest (a broker rejects timestamps further ahead), and sleeps
advance it.
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
    """The broker's time in milliseconds at each event of one conversation."""

    def __init__(self, events: Sequence[Event], log_append_topics: frozenset[str]) -> None:
        facts = [
            (place, ms) for place, event in enumerate(events) for ms in _reported(event, log_append_topics)
        ]
        self.is_reported = bool(facts)
        facts = facts or list(_guess(events))
        self._places = [place for place, _ in facts]
        self._times = list(accumulate((ms for _, ms in facts), max))

    def at(self, place: int) -> int:
        """The time at the event with this index: the last known time, else the next known one."""
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
