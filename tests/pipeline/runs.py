"""Sources and lakes for tests of `stage`: real directories, settings as a user writes them."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import date
from pathlib import Path

from spark_jobs.config.load import parse_settings
from spark_jobs.config.settings import Settings
from spark_jobs.flow import Step
from spark_jobs.lake.chain import make_final, read_chain
from spark_jobs.lake.file_store import FileStore
from spark_jobs.lake.manifest import Manifest
from spark_jobs.lake.object_store import ObjectStore
from spark_jobs.lake.stores import open_lake
from spark_jobs.pipeline.stage.backfill_request import BackfillRequest
from spark_jobs.pipeline.stage.step import open_run, stage

CAPTURE = """
lake: lake
sources:
  - name: gateway
    kind: capture
    root: capture
    dates: dt=%Y-%m-%d
"""
UNDATED = CAPTURE.replace("    dates: dt=%Y-%m-%d\n", "")
BROKER_LOG = UNDATED.replace("capture", "broker-log")


def day(number: int) -> date:
    return date(2024, 5, number)


@dataclass(frozen=True, slots=True)
class Place:
    """A directory with a source, and the settings that know it."""

    directory: Path
    settings: Settings

    @property
    def lake(self) -> ObjectStore:
        return open_lake(self.settings)

    def arrive(self, path: str, data: bytes = b"") -> Path:
        """Writes an object of the source; its bytes are its path unless given."""
        file = Path(self.settings.sources[0].root, path)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data or path.encode())
        return file

    def stage(self, number: int, *, backfill: bool = False, restage: bool = False) -> Manifest:
        return stage(
            self.settings,
            day(number),
            lake=self.lake,
            chain=read_chain(self.lake),
            backfill=BackfillRequest(first=day(number), last=day(number)) if backfill else None,
            restage=restage,
        )

    def finish(self, number: int, *, backfill: bool = False, state: str = "") -> Manifest:
        """Stages a run and makes its run final, in a state of its own."""
        manifest = self.stage(number, backfill=backfill)
        chain = read_chain(self.lake)
        run = open_run(self.settings, manifest, lake=self.lake, chain=chain, backfill=backfill)
        make_final(
            self.lake,
            chain,
            run.inputs,
            state_out=state or f"s{number}",
            last_step=Step.STAGE,
            outputs=run.run_id,
        )
        return manifest


def place_at(directory: Path, config: str = CAPTURE) -> Place:
    return Place(directory, parse_settings(config, name="test.yaml", base=directory))


def paths(manifest: Manifest) -> list[str]:
    """What was taken, without the date's directory."""
    return [entry.path.rpartition("dt=")[2] for entry in manifest.entries]


class DisturbedStore(FileStore):
    """A real directory in which something happens right before an object is read."""

    def __init__(self, root: str, before_read: Callable[[Path], None]) -> None:
        super().__init__(root)
        self._before_read = before_read
        self.read_keys: list[str] = []

    def chunks(self, key: str, *, version: str = "") -> Iterator[bytes]:
        self.read_keys.append(key)
        self._before_read(Path(self.url_of(key)))
        yield from super().chunks(key, version=version)
