"""`python -m tests.bench [--quick]`: every benchmark, one table each."""

import sys
from importlib import import_module

QUICK_ARGUMENTS = {"kernels": ["--quick"], "inspect": ["--quick"], "night": ["--batches", "20000"]}
"""The benchmarks in order, and what makes each a matter of seconds."""


def main(*, quick: bool) -> None:
    for name, arguments in QUICK_ARGUMENTS.items():
        import_module(f"tests.bench.{name}").main(arguments if quick else [])


if __name__ == "__main__":
    main(quick="--quick" in sys.argv[1:])
