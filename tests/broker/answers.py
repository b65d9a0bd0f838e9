"""A broker's answers beside Onceover's verdicts, batch by batch."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

from tests.broker.captures import Captured

Row = dict[str, Any]
OTHER_NAMES = {
    "odd-magic-1": "a broker asks the magic byte first, a capture the checksum: refused by both",
}
"""Batches that both reject with different errors, and the reason."""


def differing_answers(batches: Sequence[Captured], rows: Sequence[Row]) -> list[str]:
    """Every batch whose verdict differs from the broker's reply: another error, or another offset."""
    judged: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        judged[f"{row['topic']}-{row['partition']}"].append(row)
    sent: dict[str, list[Captured]] = defaultdict(list)
    for batch in batches:
        sent[str(batch.partition)].append(batch)
    return [text for name, found in sent.items() for text in _of_partition(name, found, judged[name])]


def _of_partition(name: str, sent: list[Captured], judged: list[Row]) -> Iterator[str]:
    if len(sent) != len(judged):
        yield f"{name}: {len(sent)} batches sent, {len(judged)} judged"
        return
    in_order = sorted(judged, key=lambda row: (row["run_date"], row["object_order"], row["position"]))
    for number, (batch, row) in enumerate(zip(sent, in_order, strict=True)):
        theirs = batch.error or "NONE", batch.offset
        ours = row["kafka_error"], -1 if row["offset"] is None else row["offset"]
        both_refuse = batch.label in OTHER_NAMES and theirs[0] != "NONE" != ours[0]
        if ours != theirs and not both_refuse:
            yield f"{name} batch {number} ({batch.label}): broker {theirs}, Onceover {ours}, {row['reason']}"
