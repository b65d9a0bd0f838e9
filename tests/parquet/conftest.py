from collections.abc import Iterator

import pytest

from spark_jobs.parquet import chunks, dictionary, writer


@pytest.fixture(scope="package", autouse=True)
def _small_pages() -> Iterator[None]:
    """Few rows fill pages, row groups and dictionaries here."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(chunks, "PAGE_BYTES", 60)
        patch.setattr(chunks, "PAGE_ROWS", 7)
        patch.setattr(dictionary, "LARGEST", 18)
        patch.setattr(writer, "GROUP_BYTES", 6000)
        yield
