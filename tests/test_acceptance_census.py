"""Every row of the acceptance list (facts §9) has a test.

A row counts where a test function's name contains `row_NNN`, or where a string begins with `row-NNN`: the
title of a case or the id of a parameter. Comments and docstrings do not count.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

TESTS = Path(__file__).parent
ROWS = frozenset(range(1, 178))

_IN_NAME = re.compile(r"row_(\d{3})(?!\d)")
_IN_TITLE = re.compile(r"row-(\d{3})(?!\d)")
_TITLE = re.compile(r"(row-\d{3} )*row-\d{3}(?= |$)")


def rows_in(tree: ast.AST) -> Iterator[int]:
    """The rows that a module's tests stand for."""
    docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
            yield from map(int, _IN_NAME.findall(node.name))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
            title = _TITLE.match(node.value)
            yield from map(int, _IN_TITLE.findall(title[0] if title else ""))


def covered_rows() -> set[int]:
    files = (path for path in TESTS.rglob("*.py") if path != Path(__file__))
    return {row for path in files for row in rows_in(ast.parse(path.read_text()))}


def test_every_row_of_the_acceptance_list_has_a_test() -> None:
    assert sorted(ROWS - covered_rows()) == []


def test_no_test_claims_a_row_that_does_not_exist() -> None:
    assert covered_rows() <= ROWS


def test_comments_docstrings_and_words_inside_a_string_do_not_count() -> None:
    lines = (
        '"""row-001"""',
        "# row-002",
        'x = "see row-003"',
        'y = "row-004 row-005 two"',
        'def test_row_006_x(): "row-007"',
    )
    assert set(rows_in(ast.parse("\n".join(lines)))) == {4, 5, 6}
