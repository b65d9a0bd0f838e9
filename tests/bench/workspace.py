"""What a section of the benchmark is given, and what it gives back."""

import json
import os
import platform
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console

from spark_jobs.execution.spark import Spark
from spark_jobs.kafka.formats.record_batch import Codec
from tests.bench.mix_data import Mix, write_mix

ROOT = Path(__file__).parents[2]
HOME = ROOT / ".cache" / "bench"
CONSUMER_TITLE = "Kafka ConsumerPerformance"
FETCH_TITLE = "Onceover, kind: cluster, fetch to segments"
LOCAL_TITLE, STANDALONE_TITLE = "whole run, local[2]", "whole run, standalone, 2 workers"
OURS = "Onceover s"
"""Among the numbers of a rival: how long our own run took in turn with it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Volume:
    """How much is measured, and how often; the best of all times counts."""

    records: int = 10_000_000
    codecs: tuple[Codec, ...] = (Codec.NONE, Codec.LZ4, Codec.ZSTD)
    times: int = 3
    slow_times: int = 1
    """For what takes minutes."""
    factors: tuple[int, ...] = (1, 4, 16)
    growth: float = 1.0
    """Share of the volumes at which growth is measured."""
    large_records: int = 100_000_000
    """Of the one large run."""
    large_times: int = 2
    """How often the floor and the large run take turns."""
    files: tuple[int, ...] = (1_000, 10_000, 30_000)
    """Of one commit."""

    @property
    def compared(self) -> Codec:
        """The codec on which slow rivals are measured."""
        return Codec.LZ4 if Codec.LZ4 in self.codecs else self.codecs[0]


FULL = Volume()
QUICK = Volume(records=400_000, large_records=800_000, large_times=1, times=1, growth=0.02, files=(100, 1000))
TINY = Volume(
    records=24_000,
    large_records=12_000,
    large_times=1,
    codecs=(Codec.LZ4,),
    times=1,
    factors=(1,),
    growth=0.00001,
    files=(3,),
)
"""Of a test."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One thing measured: seconds on the clock and, where they were counted, of all cores together."""

    title: str
    data: str = ""
    seconds: float = 0.0
    cpu_seconds: float = 0.0
    records: int = 0
    bytes: int = 0
    numbers: dict[str, float] = field(default_factory=dict)
    """Whatever else was counted, by name."""
    note: str = ""
    """Why there is no number, or what must be known about it."""

    @property
    def records_per_second(self) -> float:
        return self.records / self.seconds if self.seconds else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Workspace:
    """Where data and results lie, and the one session of Spark that all share."""

    home: Path
    volume: Volume
    spark: Spark
    s3_keys: tuple[str, str] | None = None
    """Those that Spark's workers were started with."""
    console: Console = field(default_factory=lambda: Console(stderr=True, highlight=False))

    def capture(self, codec: Codec, records: int | None = None) -> Path:
        """The run's capture, written if it is not there."""
        mix = Mix(records=records or self.volume.records, codec=codec)
        if not (self.home / "mix" / mix.name / "_written").exists():
            self.on_progress(f"writing {mix.records:,} records, {codec.name.lower()}")
        return write_mix(self.home / "mix", mix)

    def on_progress(self, what: str) -> None:
        """What is going on."""
        self.console.print(f"  {what}", markup=False)

    def best(self, work: Callable[[], Row], times: int | None = None) -> Row:
        """The shortest of several runs; memory is the most of all."""
        rows = []
        for number in range(times or self.volume.times):
            rows.append(work())
            self.on_progress(f"{rows[-1].title} {rows[-1].data}: {rows[-1].seconds:.2f} s (run {number + 1})")
        return min(rows, key=lambda row: row.seconds)

    def best_in_turn(self, work: Callable[[], Row], ours: Callable[[], Row]) -> Row:
        """The shortest of several runs, and beside it that of our own: each has the machine as it is then."""
        runs: list[Row] = []

        def turn() -> Row:
            runs.append(self.best(ours, 1))
            return work()

        row = self.best(turn)
        return replace(row, numbers={**row.numbers, OURS: min(run.seconds for run in runs)})


@dataclass(frozen=True, slots=True, kw_only=True)
class Results:
    """The rows of one section, with where and when they were measured."""

    section: str
    measured_at: str
    machine: str
    load: float
    rows: tuple[Row, ...]

    @property
    def titles(self) -> tuple[str, ...]:
        return tuple(row.title for row in self.rows)


def machine() -> str:
    """Processor, cores and memory of this machine."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    model = next((line.partition(": ")[2] for line in lines if line.startswith("model name")), "")
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return f"{model or platform.machine()}, {os.cpu_count()} cores, {memory:.0f} GB, {platform.system()}"


def save(home: Path, section: str, rows: Sequence[Row]) -> Results:
    """Keep a section's rows for the page and the plots."""
    found = Results(
        section=section,
        measured_at=datetime.now(UTC).isoformat(timespec="minutes"),
        machine=machine(),
        load=os.getloadavg()[0],
        rows=tuple(rows),
    )
    path = home / "results" / f"{section}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(asdict(found), indent=1))
    return found


def saved(home: Path) -> dict[str, Results]:
    """What was kept, by section."""
    return {found.section: found for found in _read_all(home / "results")}


def _read_all(folder: Path) -> Iterator[Results]:
    for path in sorted(folder.glob("*.json")):
        plain = json.loads(path.read_text())
        yield Results(**{**plain, "rows": tuple(Row(**row) for row in plain["rows"])})
