"""Checks the pinned dependencies for changes and known vulnerabilities, and reports what was not checked.

Without a network: every requirement is one version with its SHA-256, what is installed is what is pinned, and
the installed files are those that their packages brought. Known vulnerabilities come from
a service on the network, or a copy of OSV's export for PyPI (a zip or a directory of JSON files).

Exit code: 0 nothing found, 1 something found, 2 nothing found and something not checked.
"""

import argparse
import base64
import hashlib
import json
import re
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from importlib.metadata import Distribution, distributions
from pathlib import Path
from typing import Any

from packaging.markers import Marker
from packaging.version import InvalidVersion, Version

ROOT = Path(__file__).parents[2]
PIN = re.compile(r"^([A-Za-z0-9._-]+)(?:\[[^\]]*\])?==([^\s;\\]+)(?: ; ([^\\]+))?")
PIP_AUDIT = (
    "tool",
    "run",
    "pip-audit",
    "--disable-pip",
    "--no-deps",
    "-f",
    "json",
    "--progress-spinner",
    "off",
)
BESIDES = {"onceover", "pip"}
"""This package, and those that Python itself installs."""


def pins(text: str) -> dict[str, tuple[str, str]]:
    """Name → version and marker."""
    found = (PIN.match(line) for line in text.splitlines())
    return {_plain(pin[1]): (pin[2], (pin[3] or "").strip()) for pin in found if pin}


def _plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def differences(pinned: dict[str, tuple[str, str]], installed: dict[str, str]) -> Iterator[str]:
    """In what this environment is not what is pinned."""
    for name, (version, marker) in pinned.items():
        if not marker or Marker(marker).evaluate():
            found = installed.get(name, "nothing")
            if found != version:
                yield f"{name}: {version} is pinned, {found} is installed"
    yield from (f"{name}: installed, but not pinned" for name in sorted(installed.keys() - pinned.keys()))


def changed_files(package: Distribution) -> Iterator[str]:
    """Files of an installed package that are not as it brought them."""
    for file in package.files or ():
        path = Path(str(file.locate()))
        if file.hash is None or not path.is_file():
            continue
        digest = base64.urlsafe_b64encode(hashlib.new(file.hash.mode, path.read_bytes()).digest())
        if digest.rstrip(b"=").decode() != file.hash.value:
            yield f"{package.name}: {file} was changed after it was installed"


def advisories(place: Path) -> Iterator[dict[str, Any]]:
    """Those of a zip or a directory in OSV's format."""
    if place.is_dir():
        yield from (json.loads(file.read_bytes()) for file in sorted(place.rglob("*.json")))
        return
    with zipfile.ZipFile(place) as archive:
        yield from (json.loads(archive.read(name)) for name in archive.namelist() if name.endswith(".json"))


def known(advisory: dict[str, Any], pinned: dict[str, tuple[str, str]]) -> Iterator[str]:
    """The pinned versions that an advisory is about."""
    if advisory.get("withdrawn"):
        return
    for affected in advisory.get("affected", ()):
        package = affected.get("package", {})
        version = pinned.get(_plain(package.get("name", "")), ("", ""))[0]
        if version and package.get("ecosystem") == "PyPI" and _is_affected(version, affected):
            yield f"{package['name']} {version}: {advisory['id']} {advisory.get('summary', '')}".rstrip()


def _is_affected(version: str, affected: dict[str, Any]) -> bool:
    ranges = [each for each in affected.get("ranges", ()) if each.get("type") == "ECOSYSTEM"]
    return version in affected.get("versions", ()) or any(_within(version, each["events"]) for each in ranges)


def _within(version: str, events: list[dict[str, str]]) -> bool:
    inside = False
    for event in sorted(events, key=lambda event: _ordered(next(iter(event.values())))):
        [(kind, edge)] = event.items()
        if _ordered(version) > _ordered(edge) or (version == edge and kind != "last_affected"):
            inside = kind == "introduced"
    return inside


def _ordered(version: str) -> Version:
    try:
        return Version(version)
    except InvalidVersion:
        return Version("0")


def asked(requirements: Path) -> tuple[list[str], int, str]:
    """The answer of a service: vulnerabilities, how many requirements it did not check, and why not."""
    command = [str(Path(sys.executable).with_name("uv")), *PIP_AUDIT, "-r", str(requirements)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 -- a fixed command
    try:
        found = json.loads(done.stdout)["dependencies"]
    except (ValueError, KeyError):
        return [], -1, (done.stderr.strip().splitlines() or ["pip-audit said nothing"])[-1][:200]
    silent = [each["skip_reason"] for each in found if "skip_reason" in each]
    reported = [
        f"{each['name']} {each['version']}: {vuln['id']}" for each in found for vuln in each.get("vulns", ())
    ]
    return reported, len(silent), (silent or [""])[0][:200]


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--advisories", type=Path, help="OSV's export for PyPI: a zip, or a directory of JSON"
    )
    place = parser.parse_args().advisories
    requirements = ROOT / "requirements.txt"
    pinned = pins(requirements.read_text())
    packages = {_plain(each.name): each for each in distributions()}
    installed = {name: each.version for name, each in packages.items() if name not in BESIDES}
    problems = list(differences(pinned, installed))
    _say(f"installed: {len(installed)} packages, {len(problems)} other than the {len(pinned)} pinned")
    changed = [line for each in packages.values() for line in changed_files(each)]
    _say(f"files: {len(changed)} were changed after they were installed")
    reported, unknown = _vulnerabilities(pinned, requirements, place)
    for line in (*problems, *changed, *reported):
        _say(f"  {line}")
    return 1 if problems or changed or reported else 2 if unknown else 0


def _vulnerabilities(
    pinned: dict[str, tuple[str, str]], requirements: Path, place: Path | None
) -> tuple[list[str], bool]:
    """Known vulnerabilities, and whether packages remain that were not checked."""
    if place is not None:
        listed = list(advisories(place))
        reported = sorted({line for each in listed for line in known(each, pinned)})
        newest = max((each.get("modified", "") for each in listed), default="never")
        _say(
            f"known vulnerabilities: {len(reported)}, by {len(listed)} advisories, the newest of "
            f"{newest[:10]}"
        )
        return reported, not listed
    reported, silent, why = asked(requirements)
    if not silent:
        _say(f"known vulnerabilities: {len(reported)}, by a service that knows all {len(pinned)}")
        return reported, False
    _say(f"known vulnerabilities: NOT CHECKED for {silent if silent > 0 else 'any'} of {len(pinned)}: {why}")
    _say("  ask again with a network, or name OSV's export for PyPI: make audit-deps ADVISORIES=all.zip")
    return reported, True


if __name__ == "__main__":
    sys.exit(main())
