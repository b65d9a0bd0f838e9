"""The canonical form of business ids: which ids are the same, which records have none."""

import json
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_jobs.pipeline.deduplicate import ids as module
from spark_jobs.pipeline.deduplicate.ids import (
    IdState,
    decimal_text,
    exact_id,
    find_ids,
    integer_text,
)
from spark_jobs.tables.materialise import HEADERS_TYPE

SAME = [
    (b'{"id": 1}', b'{"id":1.0}'),
    (b'{"id": 1}', b'{"id": 1e0}'),
    (b'{"id": 1200}', b'{"id": 12E+2}'),
    (b'{"id": 0}', b'{"id": -0.0}'),
    (b'{"id": "A"}', b'{"other": 2, "id": "\\u0041"}'),
    (b'{"id": 1}', b'{"id": 2, "id": 1}'),
]
DIFFERENT = [
    (b'{"id": 1}', b'{"id": "1"}'),
    (b'{"id": true}', b'{"id": "true"}'),
    (b'{"id": true}', b'{"id": 1}'),
    (b'{"id": 9007199254740993}', b'{"id": 9007199254740992}'),
    (b'{"id": 0.1}', b'{"id": 0.1000000000000000055511151231257827}'),
    (b'{"id": 1}', b'{"id": -1}'),
    (b'{"id": "A"}', b'{"id": "a"}'),
    (b'{"id": ""}', b'{"id": "0"}'),
]
NULL = [None, b"{}", b'{"id": null}', b'{"other": 1}']
UNUSABLE = [
    b"",
    b"text",
    b"[1]",
    b"1",
    b'{"id": [1]}',
    b'{"id": {}}',
    b'{"id": NaN}',
    b"\xff",
    b'{"id": "\\ud800"}',
]


def _found(*values: bytes | None, fields: tuple[str, ...] = ("id",)) -> tuple[list[bytes | None], list[int]]:
    rows = pa.record_batch({"value": pa.array(values, pa.binary())})
    found = find_ids(fields, rows)
    return found.ids.to_pylist(), found.states.tolist()


@pytest.mark.parametrize(("one", "other"), SAME)
def test_the_same_id(one: bytes, other: bytes) -> None:
    ids, states = _found(one, other)
    assert ids[0] == ids[1] is not None
    assert states == [IdState.PRESENT, IdState.PRESENT]


@pytest.mark.parametrize(("one", "other"), DIFFERENT)
def test_different_ids(one: bytes, other: bytes) -> None:
    ids, states = _found(one, other)
    assert ids[0] != ids[1]
    assert states == [IdState.PRESENT, IdState.PRESENT]


@pytest.mark.parametrize("value", NULL)
def test_no_id(value: bytes | None) -> None:
    assert _found(value) == ([None], [IdState.NULL])


@pytest.mark.parametrize("value", UNUSABLE)
def test_unusable_id(value: bytes) -> None:
    assert _found(value) == ([None], [IdState.UNUSABLE])


def test_a_number_with_a_huge_exponent_costs_nothing() -> None:
    ids, _ = _found(b'{"id": 1e999999999}', b'{"id": 10e999999998}')
    assert ids[0] == ids[1] is not None
    assert ids[0] is not None
    assert len(ids[0]) < 50


def test_parts_cannot_be_confused() -> None:
    ids, _ = _found(b'{"a": "x", "b": "yz"}', b'{"a": "xy", "b": "z"}', fields=("a", "b"))
    assert ids[0] != ids[1]


def test_a_missing_part_is_no_id() -> None:
    assert _found(b'{"a": "x"}', fields=("a", "b"))[1] == [IdState.NULL]


def test_nested_fields() -> None:
    ids, states = _found(b'{"order": {"id": 7}}', b'{"order": null}', b'{"order": 7}', fields=("order.id",))
    assert ids[0] is not None
    assert states == [IdState.PRESENT, IdState.NULL, IdState.UNUSABLE]


def test_a_key_is_its_bytes_and_empty_is_not_null() -> None:
    found = find_ids("key", pa.record_batch({"key": pa.array([b"k", b"", None], pa.binary())}))
    assert found.ids.to_pylist() == [b"k", b"", None]
    assert found.states.tolist() == [IdState.PRESENT, IdState.PRESENT, IdState.NULL]


def test_the_last_header_of_a_name() -> None:
    headers = [
        [{"key": "id", "value": b"1"}, {"key": "x", "value": b"9"}, {"key": "id", "value": b"2"}],
        [],
        [{"key": "id", "value": None}],
        [{"key": "id", "value": b"3"}],
    ]
    found = find_ids("header:id", pa.record_batch({"headers": pa.array(headers, HEADERS_TYPE)}).slice(0))
    assert found.ids.to_pylist() == [b"2", None, None, b"3"]
    sliced = pa.record_batch({"headers": pa.array(headers, HEADERS_TYPE)}).slice(3)
    assert find_ids("header:id", sliced).ids.to_pylist() == [b"3"]


SCALARS = st.one_of(
    st.text(max_size=3).filter(lambda text: text.isprintable()),
    st.booleans(),
    st.integers(-20, 20),
    st.decimals(-20, 20, places=1),
)


def _meaning(found: object) -> tuple[str, object]:
    return ("number", Decimal(str(found))) if type(found) in (int, Decimal) else (type(found).__name__, found)


@given(SCALARS, SCALARS)
def test_ids_are_the_same_exactly_if_type_and_value_are(one: object, other: object) -> None:
    texts = [str(each) if isinstance(each, Decimal) else json.dumps(each) for each in (one, other)]
    ids, _ = _found(*(f'{{"id": {text}}}'.encode() for text in texts))
    assert (ids[0] == ids[1]) == (_meaning(one) == _meaning(other))


def _objects(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    names = st.sampled_from(['"id"', '"id"', '"a"', r'"\u0069d"', r'"\ud800"', "id"])
    fields = st.lists(st.tuples(names, inner).map(":".join), max_size=4)
    return fields.map(lambda parts: f"{{{', '.join(parts)}}}")


NUMBERS = st.one_of(
    st.integers().map(str),
    st.integers(-(2**65), 2**65).map(str),
    st.from_regex(r"-?(0|[1-9][0-9]{0,30})(\.[0-9]{1,30})?([eE][-+]?[0-9]{1,22})?", fullmatch=True),
    st.sampled_from(
        ["-0", "-0.0", "1e400", "-1e400", "1e-400", "1E-99999999999999999999", "9" * 5000, "01", "1."]
    ),
)
STRINGS = st.one_of(
    st.text(max_size=5).map(json.dumps),
    st.text(max_size=5).map(lambda text: json.dumps(text, ensure_ascii=False)),
    st.sampled_from(
        [r'"\ud800"', r'"\ud83d\ude00"', r'"\udc00\ud800"', '"\x01"', r'"\u0000"', r'"\x"', "'a'"]
    ),
)
HOSTILE = st.recursive(
    st.one_of(NUMBERS, STRINGS, st.sampled_from(["null", "true", "false", "NaN", "-Infinity", "nul", ""])),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map(lambda parts: f"[{','.join(parts)}]"),
        _objects(inner),
        st.tuples(st.sampled_from([2, 400, 600, 2000]), inner).map(
            lambda pair: "[" * pair[0] + pair[1] + "]" * pair[0]
        ),
    ),
    max_leaves=6,
)


VALUES = st.one_of(
    st.builds(
        lambda before, text, after: before + text.encode("utf-8", "surrogatepass") + after,
        st.sampled_from([b"", b"", b"", b" \n", b"\xef\xbb\xbf", b"\xff"]),
        st.one_of(HOSTILE, _objects(HOSTILE), _objects(HOSTILE)),
        st.sampled_from([b"", b"", b"", b"\t", b"\0", b"\xed\xa0\x80", b"x"]),
    ),
    st.binary(max_size=8),
)


@settings(max_examples=400, deadline=None)
@given(VALUES, st.sampled_from([("id",), ("id", "a"), ("a.id",), ("id.id", "a")]))
def test_orjson_gives_what_the_exact_parser_gives(value: bytes, fields: tuple[str, ...]) -> None:
    found = _found(value, fields=fields)
    with pytest.MonkeyPatch.context() as exact:
        exact.setattr(module, "canonical_id", exact_id)
        assert _found(value, fields=fields) == found


@given(st.integers())
def test_the_text_of_an_integer_is_that_of_a_decimal(number: int) -> None:
    assert integer_text(number) == decimal_text(Decimal(number))


def test_a_number_that_is_not_the_id_may_have_any_exponent() -> None:
    value = b'{"id": 1, "x": 1e-99999999999999999999}'
    assert _found(value) == _found(b'{"id": 1}')
    assert _found(b'{"id": 1e-99999999999999999999}')[1] == [IdState.UNUSABLE]
