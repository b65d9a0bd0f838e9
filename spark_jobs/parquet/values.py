"""Values of one leaf, none of them null, in the forms in which they can be written."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from spark_jobs.kernels.memory import Bytes, read_only

Places = npt.NDArray[np.int32]
Counts = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class ByteValues:
    """Bytes or text: each value is `sizes` bytes of `data` from `starts` on."""

    data: Bytes
    starts: npt.NDArray[np.int64]
    sizes: npt.NDArray[np.int32]


def byte_values(data: Bytes, starts: npt.ArrayLike, sizes: npt.ArrayLike) -> ByteValues:
    """The same of arrays of any kind, in the types for which kernels are compiled ahead."""
    return ByteValues(data, read_only(starts, np.int64), read_only(sizes, np.int32))


@dataclass(frozen=True, slots=True)
class Numbers:
    """Numbers or booleans, in the type that they are written in."""

    numbers: npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class Named:
    """Values that repeat: of `names`, those at `places`, each as often as `lengths` says, or once."""

    names: Sequence[Any]
    places: Places
    lengths: Counts | None = None


Values: TypeAlias = ByteValues | Numbers | Named
