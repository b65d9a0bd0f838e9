"""Nothing makes compiled code read or write beyond the memory that it was given."""

import os
import random
import subprocess
import sys

EVERY = bool(os.environ.get("ONCEOVER_EVERY_FAULT"))
LOGS = 5000 if EVERY else 300


def run(module: str, tries: int) -> None:
    seed = random.SystemRandom().randrange(2**32) if EVERY else tries
    command = [sys.executable, "-m", f"tests.security.{module}", str(seed), str(tries)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, f"{tries}\n"), (
        f"{' '.join(command[1:])}\n{done.stderr[-2000:]}"
    )


def test_damaged_logs_stay_inside_their_memory_and_read_as_the_plain_twin_reads_them() -> None:
    run("guarded_kernels", LOGS)


def test_a_kernel_that_went_too_far_would_be_found() -> None:
    code = (
        "import numpy as np; from tests.security.guarded import guarded;"
        "from spark_jobs.kernels.crc import _crc32c, library_address;"
        "short = guarded(b'12345678');"
        "_crc32c(library_address(), np.lib.stride_tricks.as_strided(short, (9,), writeable=False))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    assert done.returncode < 0, done.stderr
