"""What the night's cut means for each transaction."""

from dataclasses import dataclass

import numpy as np

from spark_jobs.resolving.cuts import Flags, Offsets, waiting_parts
from spark_jobs.resolving.joined_files import JoinedFile, Reach, flags


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """By partition number: up to where the night publishes, where undecided ones begin, where logs end."""

    cuts: Offsets
    decided: Offsets
    ends: Offsets
    reach: Reach


@dataclass(frozen=True, slots=True, kw_only=True)
class Fates:
    """Of each transaction: whether it waits though committed, is published tonight, is settled, is listed.

    A settled one is over: nothing of it is to come, neither data nor marker nor publication.
    """

    waits: Flags
    is_published: Flags
    is_settled: Flags
    is_listed: Flags


def decide_fates(file: JoinedFile, cuts: Offsets) -> Fates:
    """What becomes of each transaction of `file`."""
    extents = file.to_publish()
    count = file.transactions.num_rows
    waits, is_due = np.zeros(count, dtype=np.bool_), np.zeros(count, dtype=np.bool_)
    waits[extents.transaction[waiting_parts(extents, cuts)]] = True
    is_due[extents.transaction] = True
    return Fates(
        waits=waits,
        is_published=is_due & ~waits,
        is_settled=flags(file.transactions, "is_ended") & ~waits,
        is_listed=flags(file.transactions, "is_news") | file.is_undecided | is_due,
    )
