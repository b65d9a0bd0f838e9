"""`python -m tests.sample DIR` writes the sample there."""

import sys
from pathlib import Path

from tests.sample.log_directory import write_sample

if __name__ == "__main__":
    write_sample(Path(sys.argv[1]))
