"""Eight bytes written at once, inside kernels, at any alignment."""

from collections.abc import Callable
from typing import Any, TypeAlias, cast

from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

from spark_jobs.kernels.memory import Bytes

_INT64 = ir.IntType(64)


def _store(*, swapped: bool) -> Any:
    """An intrinsic (array, index, number) that stores the number as the host has it, or the other way."""

    @intrinsic
    def store(_: Any, array: Any, index: Any, value: Any) -> Any:  # noqa: ARG001 - numba reads the signature
        def generate(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> Any:
            data = context.make_array(signature.args[0])(context, builder, args[0]).data
            start = builder.gep(builder.bitcast(data, ir.IntType(8).as_pointer()), [args[1]])
            word = builder.bswap(args[2]) if swapped else args[2]
            builder.store(word, builder.bitcast(start, _INT64.as_pointer()), align=1)
            return context.get_dummy_value()

        return types.void(array, types.int64, types.int64), generate

    return store


Store: TypeAlias = Callable[[Bytes, int, int], None]
"""(array, byte index, number): the eight bytes exist."""
store_int64 = cast("Store", _store(swapped=True))
"""In network order."""
store_little = cast("Store", _store(swapped=False))
"""The lowest byte first, as Parquet has it."""
