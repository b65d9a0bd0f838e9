"""Base64 inside kernels: 24 bytes become 32 characters at a time, in vector instructions.

Written with LLVM's vector types, so that LLVM selects the instructions of the processor.
"""

from collections.abc import Callable
from typing import Any, cast

import numpy as np
from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

from spark_jobs.kernels.compile import helper
from spark_jobs.kernels.memory import Bytes, load_uint8

_CHARACTERS = np.frombuffer(
    b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/", dtype=np.uint8
)
_EQUALS = ord("=")
_STEP, _HALF = 24, 12
_READ = _HALF + 16
"""Bytes read per step: sixteen for each half of it."""
SPILL = 32
"""Bytes behind its end that `write_base64` may overwrite."""

_READ_TYPE = ir.VectorType(ir.IntType(8), 16)
_BYTES, _HALVES, _WORDS = (ir.VectorType(ir.IntType(bits), 256 // bits) for bits in (8, 16, 32))
_SPREAD = [
    half + 3 * group + place for half in (0, _READ_TYPE.count) for group in range(4) for place in (1, 0, 2, 1)
]
"""Each three bytes spread over four, such that no six bits cross a 16-bit half."""
_STEPS = ((25, 6), (51, -75), (61, -15), (62, 3))
"""(number, distance): above that number, characters are that much further from A: a, 0, + and /."""


def _splat(kind: ir.VectorType, *values: int) -> ir.Constant:
    """The values, repeated."""
    mask = (1 << kind.element.width) - 1
    return ir.Constant(kind, [values[index % len(values)] & mask for index in range(kind.count)])


def _sextets(builder: ir.IRBuilder, first: ir.Value, second: ir.Value) -> ir.Value:
    """Six bits in each of 32 bytes, from the first twelve bytes of both halves."""
    order = ir.Constant(ir.VectorType(ir.IntType(32), _BYTES.count), _SPREAD)
    words = builder.bitcast(builder.shuffle_vector(first, second, order), _WORDS)
    outer = builder.bitcast(builder.and_(words, _splat(_WORDS, 0x0FC0FC00)), _HALVES)
    inner = builder.bitcast(builder.and_(words, _splat(_WORDS, 0x003F03F0)), _HALVES)
    both = builder.or_(builder.lshr(outer, _splat(_HALVES, 10, 6)), builder.shl(inner, _splat(_HALVES, 4, 8)))
    return builder.bitcast(both, _BYTES)


def _characters(builder: ir.IRBuilder, numbers: ir.Value) -> ir.Value:
    found = builder.add(numbers, _splat(_BYTES, ord("A")))
    for last, step in _STEPS:
        is_above = builder.icmp_unsigned(">", numbers, _splat(_BYTES, last))
        found = builder.add(found, builder.select(is_above, _splat(_BYTES, step), _splat(_BYTES, 0)))
    return found


@intrinsic
def _write_step(_: Any, out: Any, at: Any, data: Any, start: Any) -> Any:  # noqa: ARG001 - numba reads the signature
    def generate(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> Any:
        def place(array: int, further: int, kind: ir.VectorType) -> ir.Value:
            base = context.make_array(signature.args[array])(context, builder, args[array]).data
            index = builder.add(args[array + 1], ir.Constant(ir.IntType(64), further))
            found = builder.gep(builder.bitcast(base, ir.IntType(8).as_pointer()), [index])
            return builder.bitcast(found, kind.as_pointer())

        halves = (builder.load(place(2, further, _READ_TYPE), align=1) for further in (0, _HALF))
        builder.store(_characters(builder, _sextets(builder, *halves)), place(0, 0, _BYTES), align=1)
        return context.get_dummy_value()

    return types.void(out, types.int64, data, types.int64), generate


_encode_step = cast("Callable[[Bytes, int, Bytes, int], None]", _write_step)
"""(out, at, data, start): `_READ` bytes can be read, and 32 written."""


@helper
def _write_three(out: Bytes, at: int, first: int, second: int, third: int) -> None:
    out[at] = _CHARACTERS[first >> 2]
    out[at + 1] = _CHARACTERS[(first & 3) << 4 | second >> 4]
    out[at + 2] = _CHARACTERS[(second & 15) << 2 | third >> 6]
    out[at + 3] = _CHARACTERS[third & 63]


@helper
def _write_whole(out: Bytes, at: int, data: Bytes, start: int, size: int) -> int:
    """`size` is a multiple of three."""
    done = 0
    while done < size and start + done + _READ <= data.size:
        _encode_step(out, at + done // 3 * 4, data, start + done)
        done += _STEP
    for place in range(done, size, 3):  # at the end of all data
        first, second = load_uint8(data, start + place), load_uint8(data, start + place + 1)
        _write_three(out, at + place // 3 * 4, first, second, load_uint8(data, start + place + 2))
    return at + size // 3 * 4


@helper
def write_base64(out: Bytes, at: int, data: Bytes, start: int, size: int) -> int:
    """`size` bytes from `start`, padded with `=`."""
    left = size % 3
    at = _write_whole(out, at, data, start, size - left)
    if left == 0:
        return at
    first = load_uint8(data, start + size - left)
    second = load_uint8(data, start + size - 1) if left == 2 else 0
    _write_three(out, at, first, second, 0)
    out[at + 3] = _EQUALS
    if left == 1:
        out[at + 2] = _EQUALS
    return at + 4
