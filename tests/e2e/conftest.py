"""One Airflow for all tests that need one: starting it and running two nights takes most of their time."""

from collections.abc import Iterator

import pytest

from tests.e2e.airflow_nights import Nights, airflow_nights


@pytest.fixture(scope="package")
def nights(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nights]:
    with airflow_nights(tmp_path_factory.mktemp("nights")) as found:
        yield found
