"""Record a random workload of a real broker in the layout of `tests/recordings`.

`python -m tests.broker.recorder OUT --mode idem|tv1|tv2|mixed --seed N --events N --restart clean|kill9`
"""

import argparse
from pathlib import Path

from tests.broker.actions import act
from tests.broker.session import Recorder


def record(recorder: Recorder, events: int, restarts: list[str]) -> None:
    """A whole recording: producers, random actions, restarts in between, what consumers get in the end."""
    recorder.begin()
    recorder.add_producers()
    due = [(index + 1) * events // (len(restarts) + 1) for index in range(len(restarts))]
    while len(recorder.events) < events:
        if due and len(recorder.events) >= due[0]:
            due.pop(0)
            recorder.restart(restarts.pop(0))
        act(recorder)
    recorder.finish()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--mode", choices=["idem", "tv1", "tv2", "mixed"], default="idem")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--events", type=int, default=400)
    parser.add_argument("--restart", action="append", default=[], choices=["clean", "kill9"])
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    recorder = Recorder(options.out.resolve(), options.mode, options.seed)
    try:
        record(recorder, options.events, options.restart)
    finally:
        recorder.broker.kill()
    print(f"{len(recorder.events)} events in {options.out}")


if __name__ == "__main__":
    main()
