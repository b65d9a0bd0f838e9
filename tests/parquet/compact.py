"""Thrift's compact protocol, read: what the writer says is understood without the writer's own code."""

from typing import Any

_TRUE, _FALSE, _BYTE, _BINARY, _LIST, _STRUCT = 1, 2, 3, 8, 9, 12

Fields = dict[int, Any]


class Compact:
    """Reads values one after the other."""

    def __init__(self, data: bytes, position: int = 0) -> None:
        self.data, self.position = data, position

    def struct(self) -> Fields:
        """Fields by their numbers."""
        fields: Fields = {}
        number = 0
        while head := self._byte():
            number = number + (head >> 4) if head >> 4 else self._zigzag()
            fields[number] = self._value(head & 0x0F)
        return fields

    def _value(self, kind: int) -> Any:
        if kind in (_TRUE, _FALSE):
            return kind == _TRUE
        if kind == _BINARY:
            size = self._varint()
            self.position += size
            return self.data[self.position - size : self.position]
        if kind == _LIST:
            return self._list()
        return self.struct() if kind == _STRUCT else self._zigzag()

    def _list(self) -> list[Any]:
        head = self._byte()
        size = head >> 4 if head >> 4 < 15 else self._varint()
        kind = head & 0x0F
        return [self._byte() == _TRUE if kind in (_TRUE, _FALSE) else self._value(kind) for _ in range(size)]

    def _byte(self) -> int:
        self.position += 1
        return self.data[self.position - 1]

    def _varint(self) -> int:
        number = shift = 0
        while True:
            byte = self._byte()
            number |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return number

    def _zigzag(self) -> int:
        number = self._varint()
        return number >> 1 ^ -(number & 1)


def footer_of(data: bytes) -> Fields:
    """What a file says of itself."""
    size = int.from_bytes(data[-8:-4], "little")
    return Compact(data[-8 - size : -8]).struct()
