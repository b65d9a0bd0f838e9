"""What is installed is what was looked at: every requirement is one version, known by its digests."""

import re
import tomllib
from collections.abc import Iterator
from importlib.metadata import Distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from infra.setup.audit_deps import changed_files, differences, known, pins

ROOT = Path(__file__).parents[2]
PINNED = re.compile(r"[a-z0-9][a-z0-9._-]*(\[[a-z0-9,._-]+\])?==[^\s;]+( ; .*)?")
DIGEST = re.compile(r"--hash=sha256:[0-9a-f]{64}")


def _requirements() -> Iterator[list[str]]:
    """Each requirement with what follows it in indented lines."""
    lines = (ROOT / "requirements.txt").read_text().replace("\\\n", "\n").splitlines()
    found: list[list[str]] = []
    for line in lines:
        if line and not line.startswith((" ", "#")):
            found.append([line.strip()])
        elif line.strip() and not line.strip().startswith("#"):
            found[-1].append(line.strip())
    yield from found


def test_every_requirement_is_pinned_with_its_digests() -> None:
    requirements = list(_requirements())
    assert len(requirements) > 100
    for name, *digests in requirements:
        assert PINNED.fullmatch(name), name
        assert digests, name
        assert all(DIGEST.fullmatch(digest) for digest in digests), name


def _allowed() -> Iterator[Requirement]:
    """The ranges of pyproject.toml, of the core and of all extras."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"].values()
    yield from map(Requirement, (*project["dependencies"], *(each for extra in extras for each in extra)))


def test_the_pins_are_within_the_ranges_that_users_install() -> None:
    pinned = pins((ROOT / "requirements.txt").read_text())
    ranges = [each for each in _allowed() if each.name != "onceover"]
    assert len(ranges) > 30
    for each in ranges:
        version, _ = pinned[canonicalize_name(each.name)]
        assert each.specifier.contains(version, prereleases=True), f"{each}, but {version} is pinned"


def test_users_get_ranges_and_no_pins() -> None:
    for each in _allowed():
        assert not {"==", "==="} & {part.operator for part in each.specifier}, str(each)


def test_no_place_to_install_from_is_named() -> None:
    for name in ("requirements.txt", "pyproject.toml"):
        text = (ROOT / name).read_text()
        assert not re.search(r"--(extra-)?index-url|--find-links|--trusted-host|https?://[^\s]*simple", text)


def test_an_installation_checks_the_digests() -> None:
    assert "--require-hashes" in (ROOT / "infra" / "setup" / "venv.py").read_text()


def _advisory(*events: dict[str, str], versions: tuple[str, ...] = ()) -> dict[str, object]:
    package = {"name": "Some_Package", "ecosystem": "PyPI"}
    ranges = [{"type": "ECOSYSTEM", "events": list(events)}]
    return {"id": "X-1", "affected": [{"package": package, "ranges": ranges, "versions": list(versions)}]}


@pytest.mark.parametrize(
    ("advisory", "is_known"),
    [
        (_advisory({"introduced": "0"}), True),
        (_advisory({"introduced": "0"}, {"fixed": "1.10"}), True),
        (_advisory({"introduced": "0"}, {"fixed": "1.9"}), False),
        (_advisory({"introduced": "1.9"}, {"last_affected": "1.9"}), True),
        (_advisory({"introduced": "1.10"}), False),
        (_advisory({"introduced": "1.10"}, versions=("1.9",)), True),
        (_advisory({"introduced": "0"}) | {"withdrawn": "2024-05-01"}, False),
    ],
)
def test_an_advisory_is_about_the_versions_that_it_names(advisory: dict[str, object], is_known: bool) -> None:
    found = list(known(advisory, pins("some-package==1.9 \\\n")))
    assert found == (["Some_Package 1.9: X-1"] if is_known else [])


def test_what_is_installed_otherwise_than_pinned_is_reported() -> None:
    pinned = pins("a==1\nb==2 ; sys_platform == 'none'\nc[x]==3\n")
    assert list(differences(pinned, {"a": "1", "c": "4", "d": "1"})) == [
        "c: 3 is pinned, 4 is installed",
        "d: installed, but not pinned",
    ]


def test_a_package_whose_file_was_changed_is_reported(tmp_path: Path) -> None:
    place = tmp_path / "some-1.dist-info"
    place.mkdir()
    (tmp_path / "some.py").write_text("changed")
    (place / "METADATA").write_text("Metadata-Version: 2.1\nName: some\nVersion: 1\n")
    (place / "RECORD").write_text("some.py,sha256=AAAA,7\nsome-1.dist-info/RECORD,,\n")
    assert list(changed_files(Distribution.at(place))) == ["some: some.py was changed after it was installed"]
