"""Why a scan stopped: the kernels' code for the errors of `protocol.segment`."""

from dataclasses import dataclass
from enum import IntEnum

from spark_jobs.protocol.errors import BadCrc, BadLength, BadMagic, CorruptData, TornBatch, ZeroFilledTail


class StopReason(IntEnum):
    """What is at the position where a scan stopped."""

    END = 0
    """Nothing: the last batch ended exactly there."""
    FULL = 1
    """A whole batch for which the columns had no room: call again from there."""
    TORN = 2
    """Less than a batch. In a window of a larger object it is the batch that the next window completes."""
    BAD_LENGTH = 3
    ZERO_FILLED = 4
    BAD_MAGIC = 5
    BAD_CRC = 6


ERROR_OF: dict[StopReason, type[CorruptData]] = {
    StopReason.TORN: TornBatch,
    StopReason.BAD_LENGTH: BadLength,
    StopReason.ZERO_FILLED: ZeroFilledTail,
    StopReason.BAD_MAGIC: BadMagic,
    StopReason.BAD_CRC: BadCrc,
}
"""The error that the pure twin raises; `END` and `FULL` are none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanStop:
    """Where a scan stopped, and why; everything before `position` is whole batches."""

    position: int
    reason: StopReason


GO_ON = -1
"""Inside kernels only: no reason to stop."""
END, FULL, TORN = int(StopReason.END), int(StopReason.FULL), int(StopReason.TORN)
BAD_LENGTH, ZERO_FILLED = int(StopReason.BAD_LENGTH), int(StopReason.ZERO_FILLED)
BAD_MAGIC, BAD_CRC = int(StopReason.BAD_MAGIC), int(StopReason.BAD_CRC)
