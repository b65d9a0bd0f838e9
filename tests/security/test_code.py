"""What the code never does: run what data says, or let a shell read it. Held by its syntax trees."""

import ast
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ROOMS = ("spark_jobs", "dags", "expectations", "infra")
MODULES = {"pickle", "marshal", "shelve", "dill", "cloudpickle", "joblib", "xmlrpc", "imp"}
"""Readers that make objects of bytes, and so run what the bytes say."""
NAMES = {"eval", "exec", "compile", "__import__"}
METHODS = {
    "yaml.load", "yaml.unsafe_load", "yaml.full_load", "yaml.load_all", "os.system", "os.popen",
    "tempfile.mktemp", "np.load", "numpy.load", "pd.read_pickle", "pandas.read_pickle",
}  # fmt: skip
FLAGS = {"shell", "allow_pickle"}
EXCEPT = {"spark_jobs/execution/python_worker.py": "pickle"}
"""Tasks and summaries between the driver and its own workers, as Spark moves its own; never stored."""


def _sources() -> list[Path]:
    listed = subprocess.run(
        ["git", "ls-files", *ROOMS], cwd=ROOT, capture_output=True, text=True, check=False
    )
    names = listed.stdout.splitlines() or [
        str(path) for room in ROOMS for path in (ROOT / room).rglob("*.py")
    ]
    return [ROOT / name for name in names if name.endswith(".py")]


def forbidden(code: str) -> Iterator[str]:
    """What `code` does that it must not, each with its line."""
    for node in ast.walk(ast.parse(code)):
        for found in _names(node):
            yield f"line {getattr(node, 'lineno', 0)}: {found}"


def _names(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.Import(names=names):
            yield from (each.name for each in names if each.name.partition(".")[0] in MODULES)
        case ast.ImportFrom(module=str(module)) if module.partition(".")[0] in MODULES:
            yield module
        case ast.Call(func=ast.Name(id=name)) if name in NAMES:
            yield name
        case ast.Attribute() if ast.unparse(node) in METHODS:
            yield ast.unparse(node)
        case ast.keyword(arg=str(name), value=ast.Constant(value=True)) if name in FLAGS:
            yield f"{name}=True"


def _lines(name: str) -> list[str]:
    allowed = EXCEPT.get(name)
    return [line for line in forbidden((ROOT / name).read_text()) if line.partition(": ")[2] != allowed]


@pytest.mark.parametrize("room", ROOMS)
def test_nothing_is_ever_made_an_object_or_run_because_data_says_so(room: str) -> None:
    files = [path for path in _sources() if path.relative_to(ROOT).parts[0] == room]
    found = {name: _lines(name) for name in (str(path.relative_to(ROOT)) for path in files)}
    assert files
    assert {name: lines for name, lines in found.items() if lines} == {}


@pytest.mark.parametrize(
    "code",
    [
        "import pickle",
        "from pickle import loads",
        "import yaml\nyaml.load(text)",
        "eval(text)",
        "import subprocess\nsubprocess.run(text, shell=True)",
        "import numpy as np\nnp.load(file, allow_pickle=True)",
    ],
)
def test_such_code_would_be_found(code: str) -> None:
    assert list(forbidden(code))
