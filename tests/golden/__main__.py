"""Records the digests anew: `python -m tests.golden`, when a change is meant to change what runs yield."""

import json
import tempfile
from pathlib import Path

from tests.golden.digests import GOLDEN, digests_of
from tests.golden.scenarios import SCENARIOS


def main() -> None:
    recorded = {}
    for name in SCENARIOS:
        with tempfile.TemporaryDirectory() as place:
            recorded[name] = digests_of(name, Path(place))
        print(f"{name}: {len(recorded[name])} digests", flush=True)
    GOLDEN.write_text(json.dumps(recorded, indent=1) + "\n")


if __name__ == "__main__":
    main()
