import os
import subprocess
import sys
from pathlib import Path

import pytest

from spark_jobs.kernels import cache as caching
from spark_jobs.kernels import compile as compiling

COUNT = "from spark_jobs.kernels.compile import compiled_here; print(compiled_here())"
WARM = "from spark_jobs.kernels.warm import warm; warm();" + COUNT
CHECKSUM = "from spark_jobs.kernels.crc import checksum_ieee; assert checksum_ieee(b'') == 0;" + COUNT


def compiled_in_a_new_process(code: str, **environment: str) -> int:
    """How many kernels a fresh interpreter compiles while it runs `code`."""
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=True,
    )
    return int(done.stdout)


def test_a_second_process_compiles_nothing() -> None:
    compiled_in_a_new_process(WARM)
    assert compiled_in_a_new_process(WARM) == 0


def test_a_process_that_is_warm_has_loaded_what_index_and_admit_call() -> None:
    code = (
        "from spark_jobs.kernels import compile, warm; warm.warm();"
        "print(*(each.py_func.__qualname__ for each in compile._cached if each.signatures))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert set(done.stdout.split()) >= {
        "_scan",
        "_fold",
        "_track",
        "_put_canonical",
        "_merge",
        "_is_in_order",
    }


def test_the_cache_lives_where_the_environment_says(tmp_path: Path) -> None:
    assert compiled_in_a_new_process(CHECKSUM, NUMBA_CACHE_DIR=str(tmp_path)) == 1
    assert compiled_in_a_new_process(CHECKSUM, NUMBA_CACHE_DIR=str(tmp_path)) == 0
    assert [folder.name.split("-")[0] for folder in tmp_path.iterdir()] == ["kernels"]


def test_what_another_process_has_compiled_is_known_without_loading_numba(tmp_path: Path) -> None:
    ask = (
        "import sys; from spark_jobs.kernels.cache import are_compiled;"
        "found = are_compiled('crc._crc32') + 2 * are_compiled('crc._crc32', 'scan._scan');"
        "assert 'numba' not in sys.modules; print(found)"
    )
    environment = {"NUMBA_CACHE_DIR": str(tmp_path)}
    assert compiled_in_a_new_process(ask, **environment) == 0
    compiled_in_a_new_process(CHECKSUM, **environment)
    assert compiled_in_a_new_process(ask, **environment) == 1


def test_beside_the_package_is_the_first_choice(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    monkeypatch.setattr(caching, "_PACKAGE", tmp_path)
    found = caching.find_cache_directory()
    assert found is not None
    assert found.parent == tmp_path / "__pycache__"


def test_a_package_that_cannot_be_written_leaves_its_cache_in_the_home_directory(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "file"
    file.touch()
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(caching, "_PACKAGE", file)
    found = caching.find_cache_directory()
    assert found is not None
    assert found.parent == tmp_path / "home" / "onceover"


def test_without_any_place_to_write_there_is_no_cache(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "file"
    file.touch()
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(file))
    assert caching.find_cache_directory() is None


def test_a_changed_source_gets_another_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    before = caching.find_cache_directory()
    (tmp_path / "kernel.py").write_text("changed")
    monkeypatch.setattr(caching, "files", lambda _: tmp_path)
    assert caching.find_cache_directory() != before


def test_a_helper_that_python_calls_is_refused() -> None:
    @compiling.helper
    def doubled(number: int) -> int:
        return 2 * number

    @compiling.kernel
    def quadrupled(number: int) -> int:
        return doubled(doubled(number))

    assert quadrupled(3) == 12
    with pytest.raises(TypeError, match="doubled is a helper: only kernels can call it"):
        doubled(3)
