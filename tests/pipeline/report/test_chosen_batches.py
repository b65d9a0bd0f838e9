"""The explorer has all batches of a small run, and a bounded share of a large one from every partition."""

from pathlib import Path

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.lake.file_store import FileStore
from spark_jobs.lake.parquet_file import ParquetOutput
from spark_jobs.pipeline.report.explorer import (
    MOST_PLAIN,
    MOST_TROUBLED,
    Quota,
    chosen_rows,
    fair_shares,
    quotas_of,
)

WANTED = st.lists(st.integers(0, 1000), max_size=30)


@given(WANTED, st.integers(0, 5000))
def test_shares_are_bounded_and_use_what_there_is(wanted: list[int], most: int) -> None:
    shares = fair_shares(wanted, most)
    assert all(0 <= share <= want for share, want in zip(shares, wanted, strict=True))
    assert sum(shares) == min(sum(wanted), most)


@given(WANTED, st.integers(0, 5000))
def test_a_share_below_what_is_wanted_is_no_smaller_than_another(wanted: list[int], most: int) -> None:
    shares = fair_shares(wanted, most)
    cut = [share for share, want in zip(shares, wanted, strict=True) if share < want]
    assert not cut or max(shares) - min(cut) <= 1


def test_a_small_run_is_held_whole() -> None:
    assert quotas_of([{"accepted": 10, "duplicate": 2}, {"overlap": 3}]) == [
        Quota(troubled=2, plain=10),
        Quota(troubled=0, plain=3),
    ]


def test_a_large_run_is_cut_to_what_a_page_can_hold() -> None:
    chosen = quotas_of([{"accepted": 50_000_000, "corrupt": 1_000_000}] * 3)
    assert sum(each.troubled for each in chosen) == MOST_TROUBLED
    assert sum(each.plain for each in chosen) == MOST_PLAIN


def test_the_first_of_the_troubled_and_the_newest_of_the_others_are_read_in_order(tmp_path: Path) -> None:
    lake = FileStore(str(tmp_path))
    verdicts = np.array(["accepted"] * 200_000, dtype=object)
    verdicts[[5, 70_000, 150_000]] = "duplicate"
    table = pa.table({"place": np.arange(200_000), "verdict": pa.array(verdicts, pa.string())})
    with ParquetOutput(lake, table.schema) as output:
        for start in range(0, 200_000, 30_000):
            output.write(table.slice(start, 30_000))
        output.finish("run", "batches.parquet")
    found = list(chosen_rows(lake, "run/batches.parquet", Quota(troubled=2, plain=2), 200_000))
    assert [(row["place"], row["verdict"]) for row in found] == [
        (5, "duplicate"),
        (70_000, "duplicate"),
        (199_998, "accepted"),
        (199_999, "accepted"),
    ]
