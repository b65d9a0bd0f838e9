"""The same run on `local[2]` and on Spark's standalone cluster, a master and two workers of one core each."""

import os
import tempfile
from collections.abc import Sequence
from pathlib import Path

from infra.cluster.spark import WORKERS, running_spark
from infra.embedded.home import LOOPBACK
from tests.bench.knobs import run_at
from tests.bench.workspace import LOCAL_TITLE, STANDALONE_TITLE, Row, Workspace


def measure(space: Workspace) -> Sequence[Row]:
    """Each in a session of its own, after a first run."""
    local = _row(space, LOCAL_TITLE, f"local[{WORKERS}]")
    with (
        tempfile.TemporaryDirectory(dir=space.home) as folder,
        running_spark(Path(folder, "spark"), os.environ) as port,
    ):
        return [local, _row(space, STANDALONE_TITLE, f"spark://{LOOPBACK}:{port}")]


def _row(space: Workspace, title: str, master: str) -> Row:
    capture = space.capture(space.volume.compared)
    seconds, records = run_at(capture, master, max(space.volume.times - 1, 1))
    space.on_progress(f"{title}: {seconds:.2f} s")
    return Row(title=title, data=space.volume.compared.name.lower(), seconds=seconds, records=records)
