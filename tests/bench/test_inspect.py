"""The benchmark itself works: a tiny run, judged by nothing but its result."""

from pathlib import Path

from tests.bench.inspect import cases, measure, row


def test_a_tiny_run_measures_every_case_on_files_that_are_kept(tmp_path: Path) -> None:
    for case in cases(1, 2)[::3]:
        size, ours, _ = measure(case, tmp_path, None, 1)
        assert size >= 2**20 * case.data.segments
        assert ours.total > 0
        assert row(case, size, ours, None)[0] == case.title
    written = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.log")}
    measure(cases(1, 2)[0], tmp_path, None, 1)
    assert written == {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.log")}
