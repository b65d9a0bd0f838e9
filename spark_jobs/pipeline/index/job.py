"""What a Spark task of `index` receives and returns: pieces of objects in bins, and a summary of each bin."""

from dataclasses import dataclass, replace

from spark_jobs.kafka.topic_partition import TopicPartition
from spark_jobs.lake.run_folder import OutputFile
from spark_jobs.pipeline.index.walk import Damage
from spark_jobs.tables.index import INDEX


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """The batches of one object that begin in `start`..`stop`; a whole object is one piece or several.

    The run reads the object from `first` on. `boundary` is where the first batch of the piece begins: known
    for an object's first piece, None where a worker has to guess, and given by the driver once the piece
    before is joined. `counts_keys` asks for the number of records without a key in every batch. `sha256` is
    the object's, if `stage` has written its headers down (`lake.staged_headers`), else empty.
    """

    object_order: int
    store: str
    key: str
    version: str
    size: int
    start: int
    stop: int
    boundary: int | None
    counts_keys: bool = False
    first: int = 0
    sha256: str = ""

    @property
    def is_whole(self) -> bool:
        """Whether the object has no other pieces."""
        return self.start == self.first and self.stop == self.size


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
        return not self.pieces[0].is_whole

    @property
    def place(self) -> tuple[int, int]:
        """Which part of which object it begins with; its boundary does not count."""
        return self.pieces[0].object_order, self.pieces[0].start

    @property
    def file(self) -> str:
        """The file's path below the step's folder; files of one copy sort in arrival order.

        The name says which bytes were asked for: a part that is read again from a known boundary has a name
        of its own, and so has a part of another `range_bytes`, which run ids do not cover. So a late attempt
        of another round, or of an earlier attempt of the step, cannot replace the file.
        """
        first, last = self.pieces[0], self.pieces[-1]
        boundary = ""
        if first.start != first.first and first.boundary is not None:
            boundary = f"-{first.boundary:019d}"
        return INDEX.file_of(
            partition=self.copy.partition,
            copy=self.copy.number,
            object_order=first.object_order,
            start=first.start,
            last_object=last.object_order,
            stop=last.stop,
            boundary=boundary,
        )

    def begin_at(self, boundary: int) -> "Bin":
        """The same part, its first boundary known."""
        return replace(self, pieces=(replace(self.pieces[0], boundary=boundary),))


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """One of the problems in an index file, for the run's report."""

    object_order: int
    damage: Damage


@dataclass(frozen=True, slots=True, kw_only=True)
class BinSummary:
    """The result of a bin: `rows` in its file, of which `problems` are no batch, and some `examples`.

    The rows cover the first piece's object from `first` on and the last piece's up to `end`; `first` is None
    if a worker that had to guess found nothing like a batch. `mapped` bytes of the objects were looked at
    without a read.
    """

    first: int | None
    end: int
    rows: int
    problems: int
    examples: tuple[Example, ...]
    output: OutputFile
    mapped: int = 0
