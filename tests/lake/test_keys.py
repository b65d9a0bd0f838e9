import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.lake.errors import UnsafeKey
from spark_jobs.lake.file_store import FileStore
from spark_jobs.lake.object_store import MAX_KEY_BYTES, checked, join_key, key_problem, printable

CLIMBING = ["..", "../x", "a/../../b", "a/..", "/etc/passwd", "a//b", "", ".", "a/./b", "a/"]
UNHOLDABLE = ["a\0b", "a\nb", "\x1b[31mred", "a\x7f", "a\udcffb", "n" * (MAX_KEY_BYTES + 1), "é" * 600]
FINE = ["a", "a/b.c", "..a/b..", "...", "Заказы/注文", "with space+%2e%2e", "n" * MAX_KEY_BYTES, "a\\..\\b"]


@pytest.mark.parametrize("key", CLIMBING + UNHOLDABLE, ids=ascii)
def test_a_key_that_could_leave_its_root_or_cannot_be_held_is_refused(key: str) -> None:
    assert key_problem(key)
    with pytest.raises(UnsafeKey):
        checked(key)


@pytest.mark.parametrize("key", FINE, ids=lambda key: ascii(key)[:20])
def test_other_alphabets_long_names_and_dots_inside_names_are_fine(key: str) -> None:
    assert not key_problem(key)


@pytest.mark.parametrize("parts", [("a", ".."), ("a", "../b"), ("", "a"), ("a", "")])
def test_joining_parts_cannot_climb(parts: tuple[str, ...]) -> None:
    with pytest.raises(UnsafeKey):
        join_key(*parts)


@given(st.text())
def test_whatever_passes_stays_below_the_root(key: str) -> None:
    store = FileStore("/srv/lake")
    try:
        path = store.local_path(key)
    except UnsafeKey:
        return
    assert path is not None
    assert path.is_relative_to("/srv/lake")
    assert str(path) == f"/srv/lake/{key}"


@given(st.text())
def test_a_name_in_a_message_is_printable_and_short(key: str) -> None:
    shown = printable(key)
    assert shown.isprintable()
    assert len(shown) < 250
