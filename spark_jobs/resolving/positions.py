"""Where a partition stands for its readers: stable, decided, replicated (facts §4.1)."""

from dataclasses import dataclass

from spark_jobs.kernels.producers import Rows
from spark_jobs.kernels.transactions import NO_MARKER
from spark_jobs.protocol.read_committed import first_unstable_offset, last_stable_offset


@dataclass(frozen=True, slots=True, kw_only=True)
class Positions:
    """As a broker would answer, by markers alone: if everything is replicated, and by the checkpoint."""

    first_unstable_offset: int | None
    last_stable_offset: int
    high_watermark: int | None
    replicated_stable_offset: int | None


def positions_of(
    parts: Rows, *, log_start_offset: int, log_end_offset: int, checkpointed: int | None
) -> Positions:
    """`parts` are the partition's transactions that are open, or were closed by a marker not long ago.

    The high watermark on disk may lie outside of the log that was copied.
    """
    with_data = parts[parts["batches"] > 0]
    is_open = with_data["marker_type"] == NO_MARKER
    undecided = with_data["first_offset"][is_open].tolist()
    unstable = first_unstable_offset(undecided=undecided, log_start_offset=log_start_offset)
    stable = last_stable_offset(first_unstable=unstable, high_watermark=log_end_offset)
    if checkpointed is None:
        return Positions(
            first_unstable_offset=unstable,
            last_stable_offset=stable,
            high_watermark=None,
            replicated_stable_offset=None,
        )
    high_watermark = min(max(checkpointed, log_start_offset), log_end_offset)
    is_unreplicated = ~is_open & (with_data["marker_offset"] >= high_watermark)
    replicated = first_unstable_offset(
        undecided=undecided,
        unreplicated=with_data["first_offset"][is_unreplicated].tolist(),
        log_start_offset=log_start_offset,
    )
    return Positions(
        first_unstable_offset=unstable,
        last_stable_offset=stable,
        high_watermark=high_watermark,
        replicated_stable_offset=last_stable_offset(first_unstable=replicated, high_watermark=high_watermark),
    )
