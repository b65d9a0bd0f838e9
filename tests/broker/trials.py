"""Random trials at a real broker: a seed each, a folder each, kept if the trial fails."""

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.broker.alone_trial import alone_trial
from tests.broker.capture_trial import capture_trial
from tests.broker.cluster_trial import cluster_trial
from tests.broker.judge_trial import judge_trial
from tests.broker.moves_trial import moves_trial
from tests.broker.skew_trial import skew_trial
from tests.broker.tap_trial import tap_trial
from tests.broker.tiered_trial import tiered_trial
from tests.broker.upkeep_trial import upkeep_trial
from tests.broker.versions_trial import versions_trial
from tests.broker.workload_trial import workload_trial

SEED = "SEED"
USUAL_SEED = 9
"""Clients of all protocols, a broker that is killed, an operator; what others bring, `make soak` finds."""
RECORDING = "recording"
KEPT = Path(__file__).parents[2] / "build" / "broker"
Trial = Callable[[Path, int], dict[str, int]]
TRIALS: dict[str, Trial] = {
    "capture": capture_trial,
    "alone": alone_trial,
    "skew": skew_trial,
    "tap": tap_trial,
    "upkeep": upkeep_trial,
    "tiered": tiered_trial,
    "workload": workload_trial,
    "judge": judge_trial,
    "cluster": cluster_trial,
    "moves": moves_trial,
    "versions": versions_trial,
}


def chosen_seed() -> int:
    """The one that the environment names, else always the same."""
    return int(os.environ.get(SEED) or USUAL_SEED)


@contextmanager
def kept_on_failure(name: str, seed: int) -> Iterator[Path]:
    """A folder that goes away after success; else a message says where it is and how to try again."""
    place = KEPT / f"{name}-{seed}"
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    try:
        yield place
    except BaseException:
        print(f"\n{name} with seed {seed} failed; what the broker said and left is kept in {place}")
        print(f"repeat it with: make soak {SEED}={seed} TRIAL={name}")
        recording = place / RECORDING if (place / RECORDING).is_dir() else place
        print(f"as a recording: python -m tests.recordings {recording}")
        raise
    shutil.rmtree(place)


def run_trial(name: str, seed: int) -> dict[str, int]:
    """One trial; returns what it compared."""
    with kept_on_failure(name, seed) as place:
        return TRIALS[name](place, seed)
