"""One Airflow for all tests that need one: starting it and running two runs takes most of their time."""

from collections.abc import Iterator

import pytest

from tests.e2e.airflow_runs import AirflowLake, airflow_runs


@pytest.fixture(scope="package")
def airflow_lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AirflowLake]:
    with airflow_runs(tmp_path_factory.mktemp("airflow_lake")) as found:
        yield found
