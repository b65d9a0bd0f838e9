"""Work on all cores: results in order, a few parts ahead, errors where they belong."""

import os
import warnings
from collections.abc import Iterator

import pytest

from spark_jobs.reading.in_order import in_advance, in_order


def test_results_come_in_the_order_of_their_parts() -> None:
    assert list(in_order(lambda part: part * 2, range(100))) == [part * 2 for part in range(100)]
    assert list(in_order(str, [])) == []


def test_parts_are_asked_for_as_they_are_needed() -> None:
    asked = []

    def parts() -> Iterator[int]:
        for part in range(1000):
            asked.append(part)
            yield part

    assert next(in_order(str, parts())) == "0"
    assert len(asked) < 100


def test_a_forked_process_has_threads_of_its_own() -> None:
    assert list(in_order(str, [1])) == ["1"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # threads and fork: just what is tried
        child = os.fork()
    if not child:
        os._exit(next(in_order(int, ["7"])))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7


def test_an_error_comes_in_its_place() -> None:
    found = in_order(lambda part: 1 // part, [1, 1, 0])
    assert [next(found), next(found)] == [1, 1]
    with pytest.raises(ZeroDivisionError):
        next(found)


def test_work_in_advance_comes_in_order_and_may_use_all_cores_itself() -> None:
    started = []

    def work(part: int) -> list[str]:
        started.append(part)
        return list(in_order(str, range(part)))

    found = in_advance(work, range(20), ahead=2)
    assert next(found) == []
    assert max(started) <= 2
    assert list(found) == [list(map(str, range(part))) for part in range(1, 20)]


def test_an_error_in_advance_comes_in_its_place() -> None:
    found = in_advance(lambda part: 1 // part, [1, 0, 1])
    assert next(found) == 1
    with pytest.raises(ZeroDivisionError):
        next(found)
