"""A piece of an object, from what is asked of a worker to what the driver learns of it."""

from dataclasses import dataclass, replace

from spark_jobs.indexing.damage import Damage
from spark_jobs.protocol.topic_partition import TopicPartition
from spark_jobs.storage.run_folder import OutputFile


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """The batches of one object that begin in `start`..`stop`; a whole object is one piece or several.

    `boundary` is where the first of them begins: known for an object's first piece, None where a worker has
    to guess, and given by the driver once the piece before is settled.
    """

    object_order: int
    store: str
    key: str
    version: str
    size: int
    start: int
    stop: int
    boundary: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Copy:
    """One copy of a partition's log: a replica's directory; all captures of a partition are one copy, 0.

    `number` counts the copies of the partition in the manifest's order.
    """

    partition: TopicPartition
    number: int
    source: str
    directory: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Bin:
    """Consecutive pieces of one copy that become one index file."""

    copy: Copy
    pieces: tuple[Piece, ...]

    @property
    def bytes(self) -> int:
        return sum(piece.stop - piece.start for piece in self.pieces)

    @property
    def is_part(self) -> bool:
        """Whether the file holds one piece of an object that has others."""
        return self.bytes < self.pieces[0].size

    @property
    def file(self) -> str:
        """The file's path below the step's folder; files of one copy sort in arrival order."""
        first = self.pieces[0]
        name = f"{first.object_order:09d}-{first.start:019d}.parquet"
        return f"{self.copy.partition}/{self.copy.number}/{name}"

    def begin_at(self, boundary: int) -> "Bin":
        """The same part, its first boundary known."""
        return replace(self, pieces=(replace(self.pieces[0], boundary=boundary),))


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """One of the problems in an index file, for the run's report."""

    object_order: int
    damage: Damage


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """What a worker made of a bin: `rows` in its file, of which `problems` are no batch, and some `examples`.

    The rows cover the first piece's object from `first` on and the last piece's up to `end`; `first` is None
    if a worker that had to guess found nothing like a batch.
    """

    first: int | None
    end: int
    rows: int
    problems: int
    examples: tuple[Example, ...]
    output: OutputFile
