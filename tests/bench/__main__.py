"""`python -m tests.bench [--quick]`: every benchmark of this package, one table each."""

import pkgutil
import sys
from importlib import import_module

import tests.bench


def main(arguments: list[str]) -> None:
    """Run `main(arguments)` of each module that has one."""
    names = [
        module.name for module in pkgutil.iter_modules(tests.bench.__path__) if module.name != "__main__"
    ]
    for name in sorted(names):
        run = getattr(import_module(f"tests.bench.{name}"), "main", None)
        if run is not None:
            run(arguments)


if __name__ == "__main__":
    main(sys.argv[1:])
