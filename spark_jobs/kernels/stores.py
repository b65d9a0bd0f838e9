"""Eight bytes written at once, inside kernels, at any alignment."""

from collections.abc import Callable
from typing import Any, cast

from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

from spark_jobs.kernels.memory import Bytes

_INT64 = ir.IntType(64)


@intrinsic
def _store_int64(_: Any, array: Any, index: Any, value: Any) -> Any:  # noqa: ARG001 - numba reads the signature
    def generate(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, args[0]).data
        start = builder.gep(builder.bitcast(data, ir.IntType(8).as_pointer()), [args[1]])
        builder.store(builder.bswap(args[2]), builder.bitcast(start, _INT64.as_pointer()), align=1)
        return context.get_dummy_value()

    return types.void(array, types.int64, types.int64), generate


store_int64 = cast("Callable[[Bytes, int, int], None]", _store_int64)
"""(array, byte index, number): the eight bytes exist; in network order."""
