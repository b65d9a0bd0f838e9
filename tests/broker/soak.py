"""Trials at a real broker over random seeds: `make soak MINUTES=30`, or one of them: `SEED=… TRIAL=…`."""

import argparse
import sys
import time
import traceback
from collections import Counter
from itertools import cycle
from random import SystemRandom

from tests.broker.judge import JudgeUnavailableError, kafka_jars
from tests.broker.lives import LifeFailed
from tests.broker.trials import TRIALS, run_trial

GOOD, BAD, UNAVAILABLE = 0, 1, 2


def main() -> int:
    """0 if every trial that could compare went well, 1 if one did not, 2 without a broker."""
    options = _parser().parse_args()
    try:
        kafka_jars()
    except JudgeUnavailableError as missing:
        print(f"no broker to judge by: {missing}", file=sys.stderr)
        return UNAVAILABLE
    names = [options.trial] if options.trial else list(TRIALS)
    totals: Counter[str] = Counter()
    deadline = time.monotonic() + options.minutes * 60
    for name in cycle(names) if options.seed is None else names:
        _try(name, options.seed or SystemRandom().randrange(1, 10**6), totals)
        if time.monotonic() > deadline and options.seed is None:
            break
    print("total: " + ", ".join(f"{count:,} {what}" for what, count in totals.items()))
    return BAD if totals["failed"] else GOOD


def _try(name: str, seed: int, totals: Counter[str]) -> None:
    started = time.monotonic()
    print(f"{name} seed {seed}", flush=True)
    try:
        counts = run_trial(name, seed)
    except LifeFailed as failure:
        print(f"the broker's own clients did not get along with it: {failure}")
        counts = {"lives without a result": 1}
    except Exception:  # noqa: BLE001 - a failed trial is reported, and the next one starts
        traceback.print_exc()
        counts = {"failed": 1}
    totals.update({f"{name} trials": 1, **counts})
    reported = ", ".join(f"{count:,} {what}" for what, count in counts.items())
    print(f"{name} seed {seed}: {reported} ({time.monotonic() - started:.0f} s)", flush=True)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.broker.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--seed", type=int, help="only this seed, each trial once")
    parser.add_argument("--trial", choices=list(TRIALS), help="only this kind of trial")
    return parser


if __name__ == "__main__":
    sys.exit(main())
