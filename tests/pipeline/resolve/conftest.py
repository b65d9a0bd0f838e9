import os
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True, scope="package")
def unsynced() -> Iterator[None]:
    """Nothing here is about power cuts, and waiting for the disk is most of a small run's time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda _: None)
        yield
