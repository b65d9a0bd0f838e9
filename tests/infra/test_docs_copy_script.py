"""The script of the guide on copying a broker does what the guide says."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
GUIDE = ROOT / "docs" / "guides" / "copy-a-broker.md"
BROKER = ROOT / "tests" / "recordings" / "data" / "workload_clean" / "data"
DERIVED = {".index", ".timeindex"}

pytestmark = pytest.mark.skipif(shutil.which("rsync") is None, reason="no rsync here (Debian: rsync)")


def _copy(source: Path, target: Path) -> None:
    [script] = re.findall(r"```bash\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    script = re.sub(r"^from=\S+", f"from={source}/", script, flags=re.MULTILINE)
    script = re.sub(r"^to=\S+", f"to={target}/", script, flags=re.MULTILINE)
    target.mkdir(parents=True, exist_ok=True)
    subprocess.run(["bash", "-c", script], check=True)


def _files(directory: Path) -> dict[str, bytes]:
    found = (path for path in directory.rglob("*") if path.is_file() and path.suffix not in DERIVED)
    return {str(path.relative_to(directory)): path.read_bytes() for path in found}


def test_it_copies_everything_but_indexes_and_notes_the_times(tmp_path: Path) -> None:
    _copy(BROKER, tmp_path / "copy")
    copied = _files(tmp_path / "copy")
    data, coordinator = json.loads(copied.pop("onceover-copy.json"))["copied"]
    assert copied == _files(BROKER)
    assert (data["path"], coordinator["path"]) == ("", "__transaction_state-")
    assert (
        data["started_at"] <= data["finished_at"] <= coordinator["started_at"] <= coordinator["finished_at"]
    )


def test_the_next_copy_follows_what_the_broker_appended_and_deleted(tmp_path: Path) -> None:
    shutil.copytree(BROKER, tmp_path / "broker")
    _copy(tmp_path / "broker", tmp_path / "copy")
    shutil.rmtree(tmp_path / "broker" / "basic-0")
    segment = max((tmp_path / "broker" / "basic-1").glob("*.log"))
    segment.write_bytes(segment.read_bytes() + b"more")
    _copy(tmp_path / "broker", tmp_path / "copy")
    copied = _files(tmp_path / "copy")
    del copied["onceover-copy.json"]
    assert copied == _files(tmp_path / "broker")
