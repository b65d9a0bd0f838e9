"""Kafka's own classes as judge: seeded plays, and a failing one made as short as it still fails.

`make soak TRIAL=judge` plays for as long as it is given, `make test-broker` a few. A failing play is kept in
`build/broker/judge-SEED/play.json`; put it into `tests/broker/plays/` to have it played in every test run.
"""

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random
from typing import Any, Protocol

from tests.broker.judged import (
    FoldPlay,
    ReadPlay,
    ValuePlay,
    fold_config,
    fold_steps,
    read_steps,
    value_steps,
)
from tests.broker.kafka_classes import Judge
from tests.broker.log_plays import Disagreement, LogPlay, Scribe, Step, random_config

PLAYS_PER_TRIAL = 150
STEPS = {"log": 60, "fold": 60, "read": 12, "values": 25}
KEPT = Path(__file__).parent / "plays"


class Playing(Protocol):
    """A play that is being played; `batches` counts what was compared."""

    batches: int

    def play(self, steps: list[Step]) -> None:
        """All steps; whatever differs raises."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Play:
    """What to play: plain values, so that it can be kept in a file."""

    kind: str
    config: Step
    steps: list[Step]


PLAYING: dict[str, Callable[[Judge, Path, Step], Playing]] = {
    "log": LogPlay,
    "fold": FoldPlay,
    "read": ReadPlay,
    "values": ValuePlay,
}


def random_play(kind: str, seed: int) -> Play:
    """The play of a seed."""
    random, count = Random(f"{kind} {seed}"), STEPS[kind]
    if kind == "log":
        return Play(kind=kind, config=random_config(random), steps=Scribe(random).log_steps(count))
    if kind == "fold":
        return Play(kind=kind, config=fold_config(random), steps=fold_steps(random, count))
    make = read_steps if kind == "read" else value_steps
    return Play(kind=kind, config={}, steps=make(random, count))


def perform(play: Play, judge: Judge, folder: Path) -> int:
    """How many batches or values were compared; a `Disagreement` if Kafka's classes differ from ours."""
    playing = PLAYING[play.kind](judge, folder, play.config)
    playing.play(play.steps)
    return playing.batches


def shortest(play: Play, judge: Judge, folder: Path) -> Play:
    """`play` without every step that it fails without."""
    size = len(play.steps) // 2
    while size:
        for start in range(len(play.steps) - size, -1, -size):
            steps = play.steps[:start] + play.steps[start + size :]
            shorter = Play(kind=play.kind, config=play.config, steps=steps)
            if steps and fails(shorter, judge, folder):
                play = shorter
        size //= 2
    return play


def fails(play: Play, judge: Judge, folder: Path) -> str | None:
    """Why the play fails, if it does."""
    try:
        perform(play, judge, folder)
    except Disagreement as found:
        return str(found)
    return None


def load_play(path: Path) -> Play:
    """A play that was kept."""
    kept: dict[str, Any] = json.loads(path.read_text())
    return Play(kind=kept["kind"], config=kept["config"], steps=kept["steps"])


def judge_trial(place: Path, seed: int, plays: int = PLAYS_PER_TRIAL) -> dict[str, int]:
    """Plays of every kind from `seed` on; the first that fails is shortened, kept and raised."""
    counts = dict.fromkeys(PLAYING, 0)
    with Judge() as judge:
        for number in range(plays):
            kind = tuple(PLAYING)[number % len(PLAYING)]
            play, folder = random_play(kind, seed * plays + number), place / "log"
            try:
                counts[kind] += perform(play, judge, folder)
            except Disagreement:
                raise keep(shortest(play, judge, folder), judge, place) from None
    compared = counts["log"] + counts["fold"] + counts["read"]
    return {"batches": compared, "coordinator values": counts["values"]}


def keep(play: Play, judge: Judge, place: Path) -> Disagreement:
    """Write a failing play to a file, and say why it fails."""
    path = place / "play.json"
    path.write_text(json.dumps(asdict(play), indent=1))
    return Disagreement(f"{play.kind} play, kept in {path}: {fails(play, judge, place / 'log')}")
