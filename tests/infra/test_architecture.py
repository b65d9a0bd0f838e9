"""What ARCHITECTURE.md says about files and layers is what the repository has."""

import re
from pathlib import Path

from infra.docs.layers import LAYERS, contracts, layers_of
from spark_jobs.flow import Step

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "ARCHITECTURE.md").read_text()
MOST_FILES = 6
FILE = re.compile(r"`([a-z_/]+\.py)`")


def rows() -> dict[str, str]:
    """The rows of the walk-through: the first cell, and the files in their order."""
    table = TEXT.partition("## One batch through the code")[2].partition("\n## ")[0]
    lines = [line for line in table.splitlines() if line.startswith("| `")]
    return {first.strip(): files for _, first, files, _ in (line.split("|") for line in lines)}


def files_of(row: str) -> list[Path]:
    """The files of a row; a name without a folder is in the folder of the file before it."""
    found: list[Path] = []
    for name in FILE.findall(row):
        if "/" not in name:
            found.append(found[-1].with_name(name))
        else:
            found.append(ROOT / name if name.startswith("expectations/") else ROOT / "spark_jobs" / name)
    return found


def test_the_walk_through_has_every_step() -> None:
    assert list(dict.fromkeys(first.split("`")[1] for first in rows())) == list(Step)


def test_the_walk_through_names_files_that_exist() -> None:
    named = [path for row in rows().values() for path in files_of(row)]
    assert named
    assert [str(path.relative_to(ROOT)) for path in named if not path.is_file()] == []


def test_a_row_of_the_walk_through_has_few_files() -> None:
    assert {
        first: len(files_of(row)) for first, row in rows().items() if len(files_of(row)) > MOST_FILES
    } == {}


def test_every_step_package_has_a_step_module() -> None:
    pipeline = ROOT / "spark_jobs" / "pipeline"
    assert [step for step in Step if not (pipeline / step / "step.py").is_file()] == []


def test_the_list_of_layers_is_the_contract_of_import_linter() -> None:
    block = TEXT.partition("## The layers")[2].partition("```\n")[2].partition("\n```")[0]
    written = [[name.strip() for name in line.split("|")] for line in block.splitlines()]
    [contract] = [each for each in contracts() if each["type"] == LAYERS]
    assert [sorted(layer) for layer in written] == [sorted(layer) for layer in layers_of(contract)]


def test_the_picture_of_the_layers_is_shown() -> None:
    assert "](docs/img/layers.svg)" in TEXT


def test_nothing_is_defined_behind_the_start_of_a_program() -> None:
    """`python -m` would call `main` before it exists."""
    for name in ("spark_jobs", "expectations", "infra", "tests"):
        for path in (ROOT / name).rglob("*.py"):
            _, guard, behind = path.read_text().partition('\nif __name__ == "__main__":\n')
            assert not guard or all(line.startswith((" ", "#")) for line in behind.splitlines() if line), path
