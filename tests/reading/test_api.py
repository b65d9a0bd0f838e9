"""`import onceover`: its names, its examples, and what it does not import."""

import doctest
import subprocess
import sys
from pathlib import Path

import pytest

import onceover
from tests.sample.log_directory import write_sample

ROOT = Path(__file__).parents[2]
HEAVY = ("pyspark", "pandas", "duckdb", "airflow", "great_expectations", "pyiceberg", "numba", "boto3")


def test_every_name_is_there() -> None:
    assert all(getattr(onceover, name) is not None for name in onceover.__all__)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        onceover.nothing  # noqa: B018


def test_nothing_heavy_is_imported() -> None:
    program = f"import onceover, sys; print([name for name in {HEAVY} if name in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True
    )

    assert done.stdout == "[]\n"


def test_without_spark_the_extra_is_named() -> None:
    program = (
        "import sys; sys.modules['pyspark'] = None\n"
        "import onceover\n"
        "try: onceover.register\n"
        "except onceover.ExtraMissing as error: print(error)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True
    )

    assert "pip install 'onceover[pipeline]'" in done.stdout


@pytest.mark.parametrize(
    "text", [ROOT / "onceover/__init__.py", ROOT / "docs/guides/python.md"], ids=lambda path: path.name
)
def test_examples_are_true(text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_sample(tmp_path / "shop")
    monkeypatch.chdir(tmp_path)
    content = onceover.__doc__ if text.suffix == ".py" else _python_blocks(text.read_text())
    example = doctest.DocTestParser().get_doctest(content or "", {}, text.name, str(text), 0)

    assert example.examples
    found = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE).run(example)
    assert found.failed == 0


def _python_blocks(page: str) -> str:
    """The sessions of a page, without what is around them."""
    blocks = page.split("```pycon\n")[1:]
    return "\n".join(block.partition("```")[0] for block in blocks)
