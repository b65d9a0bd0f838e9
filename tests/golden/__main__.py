"""Records the digests again: `python -m tests.golden [SCENARIO …]`, when a change is meant to change results.

Without names it records all scenarios, else those alone.
"""

import json
import sys
import tempfile
from pathlib import Path

from tests.golden.digests import GOLDEN, digests_of, read_golden
from tests.golden.scenarios import SCENARIOS


def main() -> None:
    names = sys.argv[1:] or list(SCENARIOS)
    kept = read_golden()
    recorded = {name: kept.get(name, {}) for name in SCENARIOS}
    for name in names:
        with tempfile.TemporaryDirectory() as place:
            recorded[name] = digests_of(name, Path(place))
        print(f"{name}: {len(recorded[name])} digests", flush=True)
    GOLDEN.write_text(json.dumps(recorded, indent=1) + "\n")


if __name__ == "__main__":
    main()
