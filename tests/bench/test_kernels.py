"""The benchmark itself works: a tiny run, judged by nothing but its result."""

from tests.bench.kernels import Volume, rates, table_of


def test_a_tiny_run_measures_every_kernel() -> None:
    found = rates(Volume(log_bytes=2**20, batches=2000, pure_batches=50, repeats=1))
    assert all(rate.kernel > 0 for rate in found)
    assert table_of(found).row_count == len(found)
