"""Differences between a recording and its replay, as values."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

SHOWN = 160
"""Characters of a value that a message shows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One field whose replayed value differs from the recorded one."""

    where: str
    field: str
    recorded: object
    replayed: object

    def __str__(self) -> str:
        return (
            f"{self.where}: {self.field}: recorded {_short(self.recorded)}, replayed {_short(self.replayed)}"
        )


def fields(
    where: str, recorded: Mapping[str, object], replayed: Mapping[str, object]
) -> Iterator[Difference]:
    """Every recorded field whose replayed value differs; a value that the replay lacks is None."""
    for name, value in recorded.items():
        yield from values(where, name, value, replayed.get(name))


def values(where: str, field: str, recorded: object, replayed: object) -> Iterator[Difference]:
    """A difference, unless both are equal."""
    if recorded != replayed:
        yield Difference(where=where, field=field, recorded=recorded, replayed=replayed)


def first_unequal(where: str, what: str, recorded: bytes, replayed: bytes) -> Iterator[Difference]:
    """The first byte at which two files differ, with the following bytes of both."""
    if recorded == replayed:
        return
    pairs = zip(recorded, replayed, strict=False)
    position = next((i for i, (a, b) in enumerate(pairs) if a != b), min(len(recorded), len(replayed)))
    yield Difference(
        where=where,
        field=f"{what} ({len(recorded)} and {len(replayed)} bytes) from byte {position}",
        recorded=recorded[position : position + 40].hex(),
        replayed=replayed[position : position + 40].hex(),
    )


def _short(value: object) -> str:
    text = value if isinstance(value, str) else repr(value)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}… ({len(text)} characters)"
