"""How several processes share the tests: who gets which of them, and what comes first.

All tests that need something slow to start belong to one group, and a group to one process; other files stay
whole. pytest-xdist has groups, too, but writes them where this pytest no longer looks, so it is done here.
"""

import re
from typing import Any

import pytest
from _pytest.nodeid import coerce_node_id
from xdist.scheduler.loadscope import LoadScopeScheduling

SHARED = {"spark": "spark", "great_expectations": "spark", "chromium": "browser"}
"""Fixtures that take long to start, once per process, and the group of all tests that need one of them."""
LONG = ("airflow", "spark", "browser", "broker", "e2e", "faults", "security", "backfilling", "bench", "steps")
"""Groups and directories whose tests take longest, longest first; short files are left to fill the end."""
GROUP = re.compile(r"@(\w+)$")


def put_in_turn(items: list[pytest.Item]) -> None:
    """What takes long comes first; the order within a group or a file stays."""
    items.sort(key=lambda item: _turn(group_of(item)))


def name_groups(items: list[pytest.Item]) -> None:
    """Lets the names of tests tell their groups to the process that shares them out."""
    for item in items:
        group = group_of(item)
        if "/" not in group:
            unguarded: Any = item  # pytest has no other way to rename a test
            unguarded._id = coerce_node_id(f"{item.nodeid}@{group}")


def group_of(item: pytest.Item) -> str:
    """The group that a test is marked with or has by its fixtures; otherwise its file."""
    marked = item.get_closest_marker("xdist_group")
    if marked is not None:
        return str(marked.args[0])
    shared = (group for name, group in SHARED.items() if name in getattr(item, "fixturenames", ()))
    return next(shared, item.nodeid.partition("::")[0])


class GroupsAndFiles(LoadScopeScheduling):
    """Gives a process the next group or file whenever it has nearly done with the last one."""

    def _split_scope(self, nodeid: str) -> str:
        group = GROUP.search(nodeid)
        return group[1] if group else nodeid.partition("::")[0]


def _turn(group: str) -> int:
    """A file's place in line is that of its directory."""
    place = group if group in LONG else group.split("/")[1]
    return LONG.index(place) if place in LONG else len(LONG)
