"""What is installed is what was looked at: every requirement is one version, known by its digests."""

import re
from collections.abc import Iterator
from pathlib import Path

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


def test_no_place_to_install_from_is_named() -> None:
    for name in ("requirements.txt", "pyproject.toml"):
        text = (ROOT / name).read_text()
        assert not re.search(r"--(extra-)?index-url|--find-links|--trusted-host|https?://[^\s]*simple", text)


def test_an_installation_checks_the_digests() -> None:
    assert "--require-hashes" in (ROOT / "infra" / "setup" / "venv.py").read_text()
