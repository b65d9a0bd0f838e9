"""As in `tests.resolving`: nothing here is about power cuts."""

from tests.resolving.conftest import unsynced

__all__ = ["unsynced"]
