"""Every kind of source has a reader, and nothing but the configuration and the registry names a kind."""

from pathlib import Path

import spark_jobs
from spark_jobs.config.sources import SourceKind
from spark_jobs.sources.registry import READERS

NAMED_IN = {"config/sources.py", "sources/registry.py"}


def test_every_kind_has_a_reader() -> None:
    assert set(READERS) == set(SourceKind)


def test_no_other_module_names_a_kind() -> None:
    root = Path(spark_jobs.__file__).parent
    found = {str(path.relative_to(root)) for path in root.rglob("*.py") if "SourceKind" in path.read_text()}
    assert found == NAMED_IN
