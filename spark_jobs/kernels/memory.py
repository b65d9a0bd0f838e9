"""Raw memory for kernels: big-endian loads and stores, copies, prefetch, calls by address, varints, an arena.

No bounds are checked here: a kernel checks that the bytes exist before it accesses them. Every number is an
int64, since numba turns a sum of signed and unsigned into a float. Hosts are little-endian, like every
processor that numba's wheels are built for.
"""

from collections.abc import Callable
from typing import Any, TypeAlias, cast

import numpy as np
import numpy.typing as npt
from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

from spark_jobs.kernels.compile import helper

Bytes: TypeAlias = npt.NDArray[np.uint8]

_BYTE_POINTER = ir.IntType(8).as_pointer()
_INT32, _INT64 = ir.IntType(32), ir.IntType(64)


def as_bytes(buffer: Any) -> Bytes:
    """`buffer` as read-only bytes without a copy: kernels see one type for every owner of memory."""
    array = np.frombuffer(buffer, dtype=np.uint8)
    array.flags.writeable = False
    return array


def read_only(values: npt.ArrayLike, kind: npt.DTypeLike) -> npt.NDArray[Any]:
    """`values` for reading, copied only if they are of another type: kernels see one type."""
    array = np.ascontiguousarray(values, dtype=kind).view()
    array.flags.writeable = False
    return array


def _pointer(context: Any, builder: ir.IRBuilder, kind: Any, array: ir.Value, index: ir.Value) -> ir.Value:
    data = context.make_array(kind)(context, builder, array).data
    return builder.gep(builder.bitcast(data, _BYTE_POINTER), [index])


def _load(bits: int, *, signed: bool) -> Any:
    """An intrinsic (array, index) → the number of `bits` bits stored there in network order, as an int64."""

    @intrinsic
    def load(_: Any, array: Any, index: Any) -> Any:  # noqa: ARG001 - numba reads the signature
        def generate(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
            pointer = _pointer(context, builder, signature.args[0], *args)
            word = builder.load(builder.bitcast(pointer, ir.IntType(bits).as_pointer()), align=1)
            ordered = word if bits == 8 else builder.bswap(word)
            if bits == 64:
                return ordered
            return builder.sext(ordered, _INT64) if signed else builder.zext(ordered, _INT64)

        return types.int64(array, types.int64), generate

    return load


@intrinsic
def _copy_bytes(_: Any, target: Any, at: Any, source: Any, start: Any, length: Any) -> Any:  # noqa: ARG001 - numba reads the signature
    def generate(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> Any:
        to = _pointer(context, builder, signature.args[0], args[0], args[1])
        origin = _pointer(context, builder, signature.args[2], args[2], args[3])
        copy = builder.module.declare_intrinsic("llvm.memcpy", [_BYTE_POINTER, _BYTE_POINTER, _INT64])
        builder.call(copy, [to, origin, args[4], ir.Constant(ir.IntType(1), 0)])
        return context.get_dummy_value()

    return types.void(target, types.int64, source, types.int64, types.int64), generate


@intrinsic
def _prefetch(_: Any, array: Any, index: Any) -> Any:  # noqa: ARG001 - numba reads the signature
    def generate(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> Any:
        pointer = _pointer(context, builder, signature.args[0], *args)
        hint = ir.FunctionType(ir.VoidType(), [_BYTE_POINTER, _INT32, _INT32, _INT32])
        ask = builder.module.declare_intrinsic("llvm.prefetch", [_BYTE_POINTER], fnty=hint)
        read, keep, data = (ir.Constant(_INT32, value) for value in (0, 3, 1))
        builder.call(ask, [pointer, read, keep, data])
        return context.get_dummy_value()

    return types.void(array, types.int64), generate


@intrinsic
def _call_checksum(_: Any, function: Any, before: Any, array: Any, start: Any, length: Any) -> Any:  # noqa: ARG001 - numba reads the signature
    def generate(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
        data = _pointer(context, builder, signature.args[2], args[2], args[3])
        extend = ir.FunctionType(_INT32, [_INT32, _BYTE_POINTER, _INT64]).as_pointer()
        before = builder.trunc(args[1], _INT32)
        crc = builder.call(builder.inttoptr(args[0], extend), [before, data, args[4]])
        return builder.zext(crc, _INT64)

    return types.int64(types.int64, types.int64, array, types.int64, types.int64), generate


@intrinsic
def _call_decompress(
    _: Any,
    function: Any,  # noqa: ARG001 - numba reads the signature
    state: Any,  # noqa: ARG001
    target: Any,
    at: Any,  # noqa: ARG001
    room: Any,  # noqa: ARG001
    source: Any,
    start: Any,  # noqa: ARG001
    length: Any,  # noqa: ARG001
) -> Any:
    def generate(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
        to = _pointer(context, builder, signature.args[2], args[2], args[3])
        origin = _pointer(context, builder, signature.args[5], args[5], args[6])
        kinds = [_INT64, _BYTE_POINTER, _INT64, _BYTE_POINTER, _INT64]
        decompress = ir.FunctionType(_INT64, kinds).as_pointer()
        return builder.call(builder.inttoptr(args[0], decompress), [args[1], to, args[4], origin, args[7]])

    number = types.int64
    return number(number, number, target, number, number, source, number, number), generate


@intrinsic
def _call_lz4(
    _: Any,
    function: Any,  # noqa: ARG001 - numba reads the signature
    target: Any,
    at: Any,  # noqa: ARG001
    room: Any,  # noqa: ARG001
    source: Any,
    start: Any,  # noqa: ARG001
    length: Any,  # noqa: ARG001
) -> Any:
    def generate(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
        to = _pointer(context, builder, signature.args[1], args[1], args[2])
        origin = _pointer(context, builder, signature.args[4], args[4], args[5])
        kinds = [_BYTE_POINTER, _BYTE_POINTER, _INT32, _INT32]
        decompress = builder.inttoptr(args[0], ir.FunctionType(_INT32, kinds).as_pointer())
        length, room = (builder.trunc(size, _INT32) for size in (args[6], args[3]))
        return builder.sext(builder.call(decompress, [origin, to, length, room]), _INT64)

    number = types.int64
    return number(number, target, number, number, source, number, number), generate


Load: TypeAlias = Callable[[Bytes, int], int]
load_int8 = cast("Load", _load(8, signed=True))
load_int16 = cast("Load", _load(16, signed=True))
load_int32 = cast("Load", _load(32, signed=True))
load_uint8 = cast("Load", _load(8, signed=False))
load_uint32 = cast("Load", _load(32, signed=False))
load_int64 = cast("Load", _load(64, signed=True))
copy_bytes = cast("Callable[[Bytes, int, Bytes, int, int], None]", _copy_bytes)
"""(target, at, source, start, length): both ranges exist and do not overlap."""
prefetch = cast("Callable[[npt.NDArray[Any], int], None]", _prefetch)
"""(array, byte index): prefetches a cache line that will be needed soon."""
call_checksum = cast("Callable[[int, int, Bytes, int, int], int]", _call_checksum)
"""(address of a C function `uint32 extend(uint32 crc, uint8 *data, size_t count)`, crc so far, array, start,
length)."""
call_decompress = cast("Callable[[int, int, Bytes, int, int, Bytes, int, int], int]", _call_decompress)
"""(address of a C function `size_t decompress(context, target, room, source, length)`, that of the context,
target, at, room, source, start, length)."""
call_lz4 = cast("Callable[[int, Bytes, int, int, Bytes, int, int], int]", _call_lz4)
"""(address of a C function `int decompress(source, target, int length, int room)`, target, at, room, source,
start, length): both sizes fit an int32; negative for a damaged block."""


_INT64_POINTER = ir.IntType(64)


@intrinsic
def _store_int64(_: Any, array: Any, index: Any, value: Any) -> Any:  # noqa: ARG001 - numba reads the signature
    def generate(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, args[0]).data
        start = builder.gep(builder.bitcast(data, ir.IntType(8).as_pointer()), [args[1]])
        builder.store(builder.bswap(args[2]), builder.bitcast(start, _INT64_POINTER.as_pointer()), align=1)
        return context.get_dummy_value()

    return types.void(array, types.int64, types.int64), generate


store_int64 = cast("Callable[[Bytes, int, int], None]", _store_int64)
"""(array, byte index, number): the eight bytes exist; in network order."""


class Arena:
    """Memory that grows: `used` bytes of payloads, and room after them; only written pages cost memory."""

    __slots__ = ("memory", "used")

    def __init__(self, capacity: int) -> None:
        self.used = 0
        self.memory = np.empty(capacity, dtype=np.uint8)

    @property
    def content(self) -> Bytes:
        """The payloads so far; read-only, and valid until the arena grows."""
        content = self.memory[: self.used]
        content.flags.writeable = False
        return content

    def clear(self) -> None:
        """Drops the payloads and keeps the memory; an earlier `content` must not be used any more."""
        self.used = 0

    def reserve(self, size: int) -> None:
        """Makes room for `size` more bytes; `memory` may be another array afterwards."""
        if self.used + size > self.memory.size:
            memory = np.empty(max(2 * self.memory.size, self.used + size), dtype=np.uint8)
            memory[: self.used] = self.memory[: self.used]
            self.memory = memory

    def put(self, payload: bytes) -> None:
        """Appends a copy of `payload`."""
        self.reserve(len(payload))
        self.memory[self.used : self.used + len(payload)] = as_bytes(payload)
        self.used += len(payload)


# Zigzag varints (facts §1.12): the twin of `kafka.formats.primitives.Reader`.
NO_VARINT = -1
"""Returned as position if the bytes end, or the varint is too long."""


@helper
def read_varint(data: Bytes, position: int, end: int) -> tuple[int, int]:
    """(signed 32-bit number, position after it), at most 5 bytes."""
    raw = 0
    for index in range(min(5, end - position)):
        byte = load_uint8(data, position + index)
        raw |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            raw &= 0xFFFFFFFF
            return (raw >> 1) ^ -(raw & 1), position + index + 1
    return 0, NO_VARINT


@helper
def read_varlong(data: Bytes, position: int, end: int) -> tuple[int, int]:
    """(signed 64-bit number, position after it), at most 10 bytes."""
    raw = 0
    for index in range(min(10, end - position)):
        byte = load_uint8(data, position + index)
        raw |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            # A signed shift would copy the top bit.
            return ((raw >> 1) & 0x7FFFFFFFFFFFFFFF) ^ -(raw & 1), position + index + 1
    return 0, NO_VARINT
