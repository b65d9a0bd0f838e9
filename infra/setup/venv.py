"""Makes `.venv` hold exactly what requirements.txt pins, and does nothing when it already does.

Runs on the machine's own Python before anything is installed: standard library only, and no syntax that an
older Python cannot read, so that an old one gets a sentence and not a syntax error.

A stamp inside the environment records what it was built from. It is removed before the first change and
written after the last, so an interrupted set-up is never taken for a finished one: no stamp means building
again.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

OLDEST_PYTHON = (3, 11)
INPUTS = ("requirements.txt", "pyproject.toml")


class SetupFailed(Exception):
    """A phase did not work; the message says which one and what it printed."""


def check_python(version: tuple[int, ...], executable: str) -> None:
    """Refuse a Python that is too old, and say what to do instead."""
    if version[:2] < OLDEST_PYTHON:
        raise SetupFailed(
            f"Onceover needs Python {_dotted(OLDEST_PYTHON)} or newer; {executable} is {_dotted(version)}. "
            "Name a newer one, for example: make test PYTHON=python3.12"
        )


def _dotted(version: tuple[int, ...]) -> str:
    return ".".join(str(number) for number in version[:3])


def basis_of(venv: Path) -> str:
    """What an environment cannot outlive: its place (scripts name it) and the Python it was made with."""
    return hashlib.sha256(f"{venv} {sys.version}".encode()).hexdigest()


def pins_of(root: Path) -> str:
    """Digest of the pinned requirements."""
    return hashlib.sha256(b"".join((root / name).read_bytes() for name in INPUTS)).hexdigest()


def stamp_of(venv: Path) -> Path:
    return venv / ".onceover-stamp"


def read_stamp(venv: Path) -> tuple[str, str]:
    """Basis and pins of a finished environment; empty strings where there is none."""
    stamp = stamp_of(venv)
    basis, _, pins = stamp.read_text().partition(" ") if stamp.is_file() else ("", "", "")
    return basis, pins


def write_stamp(venv: Path, root: Path) -> None:
    """Declare the environment finished, in one atomic step."""
    unfinished = venv / ".onceover-stamp.tmp"
    unfinished.write_text(f"{basis_of(venv)} {pins_of(root)}")
    unfinished.replace(stamp_of(venv))


def pinned(requirements: str, package: str) -> str:
    """The lines of a hash-pinned requirements file that belong to one package."""
    block = re.search(rf"^{re.escape(package)}==.*(\n +--hash=.*)+", requirements, re.MULTILINE)
    if block is None:
        raise SetupFailed(f"requirements.txt does not pin {package} with hashes")
    return block.group() + "\n"


@contextlib.contextmanager
def phase(name: str) -> Iterator[None]:
    """One line per phase; on a terminal its seconds tick while it lasts."""
    began, done = time.monotonic(), threading.Event()
    clock = threading.Thread(target=_tick, args=(name, began, done), daemon=True)
    clock.start()
    try:
        yield
    finally:
        done.set()
        clock.join()
        say(f"\r  {name:<40} {time.monotonic() - began:6.1f} s\n")


def _tick(name: str, began: float, done: threading.Event) -> None:
    while sys.stdout.isatty() and not done.wait(0.2):
        say(f"\r  {name:<40} {time.monotonic() - began:6.1f} s")


def say(text: str) -> None:
    sys.stdout.write(text if sys.stdout.isatty() else text.lstrip("\r"))
    sys.stdout.flush()


def run(*command: str | Path) -> None:
    """Run quietly; what it printed is shown only if it fails."""
    environment = {**os.environ, "PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_NO_INPUT": "1"}
    result = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)  # noqa: S603 — fixed commands
    if result.returncode != 0:
        said = "\n".join((result.stdout + result.stderr).strip().splitlines()[-25:])
        raise SetupFailed(f"{Path(command[0]).name} {command[1]} failed:\n{said}")


def create(venv: Path) -> None:
    with phase(f"creating .venv (Python {_dotted(sys.version_info[:3])})"):
        shutil.rmtree(venv, ignore_errors=True)
        try:
            run(sys.executable, "-m", "venv", venv)
        except SetupFailed as error:
            raise SetupFailed(
                f"{error}\nOn Debian and Ubuntu the package python3-venv may be missing."
            ) from error


def install_uv(venv: Path, root: Path) -> None:
    """The fast installer, from the pin that the requirements have anyway."""
    only_uv = venv / "uv-requirements.txt"
    only_uv.write_text(pinned((root / "requirements.txt").read_text(), "uv"))
    with phase("fetching the installer (uv)"):
        run(venv / "bin/pip", "install", "--quiet", "--require-hashes", "--no-deps", "-r", only_uv)


def install_packages(venv: Path, root: Path) -> None:
    """All pinned packages: the file is the whole closure, so no installer may add to it (--no-deps)."""
    requirements = root / "requirements.txt"
    options = ("--quiet", "--require-hashes", "--no-deps", "-r", requirements)
    count = len(re.findall(r"^\S+==", requirements.read_text(), re.MULTILINE))
    try:
        install_uv(venv, root)
        with phase(f"installing {count} packages"):
            run(
                venv / "bin/uv",
                "pip",
                "install",
                "--compile-bytecode",
                "--python",
                venv / "bin/python",
                *options,
            )
    except SetupFailed as error:
        say(f"  uv cannot install here ({str(error).splitlines()[-1].strip()}): pip will, in some minutes\n")
        with phase(f"installing {count} packages with pip"):
            run(venv / "bin/pip", "install", *options)


def install_onceover(venv: Path, root: Path) -> None:
    with phase("installing onceover itself"):
        run(venv / "bin/pip", "install", "--quiet", "--no-deps", "--no-build-isolation", "-e", root)


def compile_kernels(venv: Path) -> None:
    """Once and for all: otherwise the first command that reads a big file would seem to hang."""
    with phase("compiling the kernels"):
        run(venv / "bin/python", "-m", "spark_jobs.kernels.warm")


def set_up(venv: Path, root: Path) -> None:
    """Bring `venv` to what `root` pins, by the shortest safe way."""
    basis, pins = read_stamp(venv)
    if (basis, pins) == (basis_of(venv), pins_of(root)):
        return
    if basis == basis_of(venv):
        stamp_of(venv).unlink()
    else:
        create(venv)
    install_packages(venv, root)
    install_onceover(venv, root)
    compile_kernels(venv)
    write_stamp(venv, root)


def main() -> None:
    root = Path(__file__).resolve().parents[2]
    try:
        check_python(tuple(sys.version_info[:3]), sys.executable)
        (root / ".cache").mkdir(exist_ok=True)
        with (root / ".cache/setup.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            set_up(root / ".venv", root)
    except SetupFailed as error:
        sys.exit(f"set-up stopped: {error}")


if __name__ == "__main__":
    main()
