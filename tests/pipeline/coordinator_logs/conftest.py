"""As in `tests.resolving`: nothing here is about power cuts."""

from tests.pipeline.resolve.conftest import unsynced

__all__ = ["unsynced"]
