"""Where machine code of kernels is cached, and whether it has been compiled; nothing here loads numba.

The directory's name has a digest of the sources of `kernels` and `kafka`: numba itself notices a change in
the function's own file only, and would continue to use code with an older helper or constant inlined.
"""

import os
import sys
from collections.abc import Iterator
from functools import cache
from hashlib import sha256
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent


def _source_digest() -> str:
    digest = sha256()
    for package in ("spark_jobs.kernels", "spark_jobs.kafka"):
        for name, source in sorted(_sources(files(package))):
            digest.update(name.encode() + b"\0" + source.read_bytes())
    return digest.hexdigest()[:16]


def _sources(package: Traversable) -> Iterator[tuple[str, Traversable]]:
    """Modules of the package and its subpackages, with their names."""
    for entry in package.iterdir():
        if entry.is_dir():
            yield from ((f"{entry.name}/{name}", source) for name, source in _sources(entry))
        elif entry.name.endswith(".py"):
            yield entry.name, entry


def _places() -> Iterator[Path]:
    """Possible cache directories, best first: as configured, beside the package, in the home directory."""
    configured = os.environ.get("NUMBA_CACHE_DIR")
    if configured:
        yield Path(configured)
        return
    yield _PACKAGE / "__pycache__"
    user_cache = os.environ.get("XDG_CACHE_HOME")
    yield (Path(user_cache) if user_cache else Path.home() / ".cache") / "onceover"


def _is_writable(folder: Path) -> bool:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return False
    return os.access(folder, os.W_OK)


def find_cache_directory() -> Path | None:
    """The first writable directory, or None: then every process compiles for itself."""
    name = f"kernels-{_source_digest()}"
    return next((place / name for place in _places() if _is_writable(place / name)), None)


@cache
def cache_directory() -> Path | None:
    """The directory of this process."""
    return find_cache_directory()


def are_compiled(*kernels: str) -> bool:
    """Whether this Python has compiled these kernels, named `module.function`, on this machine before.

    A hint for a choice between compiled and plain code: numba checks processor and version when it loads.
    """
    directory, python = cache_directory(), f"py{sys.version_info.major}{sys.version_info.minor}"
    return directory is not None and all(
        any(directory.glob(f"*/{kernel}-*.{python}*.nbi")) for kernel in kernels
    )
