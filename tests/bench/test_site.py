"""The benchmark of the site runs on a small year, so that it does not rot."""

from pathlib import Path

from spark_jobs.pipeline.report.site_files import from_script
from tests.bench.site import measure_reports
from tests.bench.site_data import Year, write_year


def test_a_small_year_is_shown_whole(tmp_path: Path) -> None:
    year = Year(runs=35, topics=3)
    lake = write_year(tmp_path, year)
    measure_reports(lake, year)
    index = from_script(lake.read("dashboard/data/index.js"))
    assert index["runs"] == 36
    assert len(from_script(lake.read("dashboard/data/runs/2025.js"))) == 36
    recent = from_script(lake.read("dashboard/data/recent.js"))
    assert (len(recent["days"]), len(recent["topics"])) == (28, 3)
