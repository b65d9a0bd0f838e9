"""Which records become which file: neighbours of one topic together, whatever machine the run is on."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import reduce
from itertools import accumulate, groupby
from operator import itemgetter

from spark_jobs.materialising.accounts import Account
from spark_jobs.materialising.summaries import Chunk, FilePlan, PartitionPlan, Share
from spark_jobs.packing import pack, spread

FILES_AT_LEAST = 8
SMALLEST_FILE = 32 * 2**20
"""A topic is divided so that several workers have something to do, unless its files became tiny by it."""

TASKS_PER_SLOT = 4
SMALLEST_TASK, LARGEST_TASK = 16 * 2**20, 2**30
SMALLEST_SURVEY = 32
ACCOUNT_ROWS, ACCOUNT_COST = 1 << 20, 4096
"""Rows of verdicts that share a file, and what opening a partition costs, in rows."""
FILE_COST = 2**20
"""What finishing a file costs, in bytes that could be decoded meanwhile."""

Piece = tuple[PartitionPlan, Chunk]


def plan_files(
    surveyed: Iterable[tuple[PartitionPlan, Sequence[Chunk]]], *, file_bytes: int
) -> list[FilePlan]:
    """The files of all topics; a partition's chunks stay in order, and partitions too."""
    in_order = sorted(surveyed, key=lambda each: each[0].partition)
    plans: list[FilePlan] = []
    for topic, partitions in groupby(in_order, key=lambda each: each[0].partition.topic):
        pieces = [(plan, chunk) for plan, chunks in partitions for chunk in chunks]
        for number, together in enumerate(divide(pieces, file_bytes)):
            plans.append(FilePlan(topic=topic, number=number, shares=tuple(_shares(together))))
    return plans


def divide(pieces: Sequence[Piece], file_bytes: int) -> Iterator[list[Piece]]:
    """The pieces of a topic, in order and in shares as equal as pieces allow; a segment is one piece.

    Were files filled one after the other, the last would be a rest that one worker does while others wait.
    """
    ends = list(accumulate(chunk.cost for _, chunk in pieces))
    count = number_of_files(ends[-1] if ends else 0, file_bytes)
    middles = (2 * end - chunk.cost for end, (_, chunk) in zip(ends, pieces, strict=True))
    shares = [middle * count // max(2 * ends[-1], 1) for middle in middles]
    for _, share in groupby(zip(shares, pieces, strict=True), key=itemgetter(0)):
        yield [piece for _, piece in share]


def number_of_files(total: int, file_bytes: int) -> int:
    """How many files a topic with `total` bytes of batches has.

    More than a few are a multiple of those: workers that share them end together.
    """
    count = -(-total // min(max(-(-total // FILES_AT_LEAST), SMALLEST_FILE), file_bytes))
    return count if count <= FILES_AT_LEAST else -(-count // FILES_AT_LEAST) * FILES_AT_LEAST


def pack_surveys(plans: Sequence[PartitionPlan], parallelism: int) -> Iterator[tuple[PartitionPlan, ...]]:
    """Partitions with about as many objects each, some for every slot of Spark's."""
    share = sum(map(_cost_of_survey, plans)) // (TASKS_PER_SLOT * parallelism)
    return pack(plans, cost=_cost_of_survey, most=max(share, SMALLEST_SURVEY))


def pack_accounts(accounts: Sequence[Account]) -> Iterator[tuple[Account, ...]]:
    """Partitions whose rows share files, whatever machine the run is on."""
    return pack(accounts, cost=lambda account: ACCOUNT_COST + account.rows, most=ACCOUNT_ROWS)


def pack_tasks(plans: Sequence[FilePlan], parallelism: int) -> Iterator[tuple[FilePlan, ...]]:
    """Neighbouring files together: a few tasks per slot of Spark's, none too small to be worth its start."""
    tasks = TASKS_PER_SLOT * parallelism
    return spread(plans, cost=_cost, tasks=tasks, smallest=SMALLEST_TASK, largest=LARGEST_TASK)


def _cost_of_survey(plan: PartitionPlan) -> int:
    return 1 + len(plan.objects) + len(plan.held)


def _cost(plan: FilePlan) -> int:
    return FILE_COST + plan.cost


def _shares(pieces: Iterable[Piece]) -> Iterator[Share]:
    for _, group in groupby(pieces, key=lambda piece: piece[0].partition):
        together = list(group)
        plan, chunks = together[0][0], tuple(_joined(chunk for _, chunk in together))
        yield Share(plan=_with_needed_objects(plan, chunks), chunks=chunks)


def _joined(chunks: Iterable[Chunk]) -> Iterator[Chunk]:
    """Chunks of the same rows as one: planning needs small ones, reading large ones."""
    for _, group in groupby(chunks, key=lambda chunk: (chunk.held, chunk.segment)):
        yield reduce(Chunk.join, group)


def _with_needed_objects(plan: PartitionPlan, chunks: Sequence[Chunk]) -> PartitionPlan:
    """A partition may have thousands of objects, a file needs a few of them."""
    current = [chunk for chunk in chunks if not chunk.held]
    first = min((chunk.first_object for chunk in current), default=0)
    last = max((chunk.last_object for chunk in current), default=-1)
    objects = tuple(place for place in plan.objects if first <= place.order <= last)
    return replace(plan, objects=objects, segments=())
