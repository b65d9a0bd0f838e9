"""The set-up script: it does nothing twice, and never takes a half-made environment for a whole one."""

import ast
import subprocess
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import pytest

SCRIPT = Path(__file__).parents[2] / "infra" / "setup" / "venv.py"


@pytest.fixture
def setup() -> Any:
    spec = spec_from_file_location("setup_venv", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project whose one pin cannot be installed: there is no index to find it in."""
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.delenv("PIP_FIND_LINKS", raising=False)
    (tmp_path / "requirements.txt").write_text(f"uv==0.0.1 \\\n    --hash=sha256:{'0' * 64}\n")
    (tmp_path / "pyproject.toml").write_text("[project]\nname = 'x'\nversion = '1'\n")
    return tmp_path


def test_an_environment_with_a_matching_stamp_is_left_alone(setup: Any, root: Path) -> None:
    (root / ".venv").mkdir()
    setup.write_stamp(root / ".venv", root)
    setup.set_up(root / ".venv", root)
    assert [file.name for file in (root / ".venv").iterdir()] == [".onceover-stamp"]


def test_what_has_no_stamp_is_made_anew_and_gets_none_if_that_stops(setup: Any, root: Path) -> None:
    leftover = root / ".venv" / "lib" / "half-installed"
    leftover.mkdir(parents=True)
    with pytest.raises(setup.SetupFailed, match="No matching distribution found for uv"):
        setup.set_up(root / ".venv", root)
    assert not leftover.exists()
    assert (root / ".venv" / "bin" / "python").exists()
    assert setup.read_stamp(root / ".venv") == ("", "")


def test_an_update_that_stops_half_way_takes_the_old_stamp_away(setup: Any, root: Path) -> None:
    subprocess.run([sys.executable, "-m", "venv", str(root / ".venv")], check=True)
    setup.write_stamp(root / ".venv", root)
    (root / "pyproject.toml").write_text("[project]\nname = 'x'\nversion = '2'\n")
    with pytest.raises(setup.SetupFailed):
        setup.set_up(root / ".venv", root)
    assert setup.read_stamp(root / ".venv") == ("", "")


def test_an_environment_that_was_moved_is_not_taken_for_whole(setup: Any, root: Path) -> None:
    (root / "elsewhere").mkdir()
    setup.write_stamp(root / "elsewhere", root)
    (root / "elsewhere").rename(root / ".venv")
    assert setup.read_stamp(root / ".venv")[0] != setup.basis_of(root / ".venv")


def test_a_python_that_is_too_old_is_reported_so_in_a_sentence(setup: Any) -> None:
    with pytest.raises(setup.SetupFailed, match=r"needs Python 3\.11 or newer; /usr/bin/python3 is 3\.9\.2"):
        setup.check_python((3, 9, 2), "/usr/bin/python3")


def test_the_script_is_readable_for_a_python_that_is_too_old() -> None:
    ast.parse(SCRIPT.read_text(), feature_version=(3, 7))


def test_the_pin_of_one_package_is_cut_out_with_all_its_hashes(setup: Any) -> None:
    uv = "uv==2 \\\n    --hash=sha256:2 \\\n    --hash=sha256:3\n"
    pins = f"a==1 \\\n    --hash=sha256:1\n{uv}    # via x\nuvicorn==3 \\\n    --hash=sha256:4\n"
    assert setup.pinned(pins, "uv") == uv


def test_the_lock_names_no_index() -> None:
    lock = (SCRIPT.parents[2] / "requirements.txt").read_text()
    assert "://" not in lock
    assert "--index-url" not in lock
