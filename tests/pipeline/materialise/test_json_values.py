"""Declared fields of JSON values become columns; what does not fit goes to quarantine as it is."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.config.settings import ValueType
from spark_jobs.kafka.formats.batch_builder import build_batch
from spark_jobs.kafka.formats.records import Record
from spark_jobs.lake.parquet_file import read_table
from spark_jobs.pipeline.materialise.record_table import ValueSchema
from tests.pipeline.materialise.logs import FOLDER, run_of

SCHEMA = ValueSchema(
    fields={
        "id": ValueType.LONG,
        "price": ValueType.DOUBLE,
        "note": ValueType.STRING,
        "paid": ValueType.BOOLEAN,
    },
    required=frozenset({"id"}),
)


def _fit(value: bytes | None) -> dict[str, Any] | str:
    """The fields of one value, or why it does not fit."""
    fitted = SCHEMA.fit([value])
    if fitted.unfit:
        return fitted.unfit[0]
    return {name: column.to_pylist()[0] for name, column in fitted.columns.items()}


def test_fields_become_columns_and_others_are_left_in_the_value() -> None:
    assert _fit(b'{"id": 7, "price": 2, "note": "\\u00e9", "paid": true, "more": [1]}') == {
        "id": 7, "price": 2.0, "note": "é", "paid": True,
    }  # fmt: skip


def test_fields_that_need_not_be_there_are_null() -> None:
    assert _fit(b'{"id": 7, "note": null}') == {"id": 7, "price": None, "note": None, "paid": None}


def test_a_deleted_key_has_no_fields_and_fits() -> None:
    assert _fit(None) == {"id": None, "price": None, "note": None, "paid": None}


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (b"", "expected a JSON object, found no JSON"),
        (b"\xff", "expected a JSON object, found bytes that are not UTF-8"),
        (b"[1]", "expected a JSON object, found [1]"),
        (b"{}", "field id: expected long, found nothing"),
        (b'{"id": "7"}', 'field id: expected long, found "7"'),
        (b'{"id": true}', "field id: expected long, found true"),
        (b'{"id": 7.5}', "field id: expected long, found 7.5"),
        (b'{"id": 9223372036854775808}', "field id: expected long, found 9223372036854775808"),
        (b'{"id": 1, "price": NaN}', "expected a JSON object, found no JSON: NaN is no JSON number"),
        (b'{"id": 1, "price": 1%s}' % (b"0" * 400), "field price: expected double, found a number beyond"),
        (b'{"id": 1, "paid": 1}', "field paid: expected boolean, found 1"),
        (b'{"id": 1, "note": "\\ud800"}', "field note: expected text, found half of a surrogate pair"),
        (b"[" * 100_000, "expected a JSON object, found no JSON"),
    ],
)
def test_a_value_that_does_not_fit_says_why(value: bytes, reason: str) -> None:
    found = _fit(value)
    assert isinstance(found, str)
    assert found.startswith(reason)


@given(st.lists(st.none() | st.binary(max_size=30), max_size=5))
def test_whatever_values_hold_they_fit_or_say_why(values: list[bytes | None]) -> None:
    fitted = SCHEMA.fit(values)
    assert all(len(column) == len(values) for column in fitted.columns.values())
    assert set(fitted.unfit) <= set(range(len(values)))


def test_unfit_records_leave_the_table_and_are_in_quarantine(tmp_path: Path) -> None:
    values = [b'{"id": 1}', b"junk", b'{"id": 3}', b'{"id": "x"}']
    batch = build_batch(
        records=[Record(offset_delta=n, value=value) for n, value in enumerate(values)],
        base_timestamp=0, base_offset=10, producer_id=5, producer_epoch=1, base_sequence=100,
    )  # fmt: skip
    directory = tmp_path / "source" / "t-0"
    directory.mkdir(parents=True)
    (directory / f"{0:020d}.log").write_bytes(batch)
    run_data = run_of([directory], tmp_path, "topics: {t: {value: json, fields: {id: long}}}\n")
    written = run_data.materialise()
    assert [(row["offset"], row["id"]) for row in run_data.rows(written)] == [(10, 1), (12, 3)]
    [each] = written
    assert (each.unfit, each.hidden, each.unreadable_batches, each.unreadable_records) == (2, 0, 0, 0)
    [file] = each.quarantine
    rows = read_table(run_data.lake, f"{FOLDER}/{file.output.path}").to_pylist()
    names = ("kind", "offset", "base_sequence", "position", "bytes")
    assert [tuple(row[name] for name in names) for row in rows] == [
        ("unfit", 11, 101, 0, b"junk"),
        ("unfit", 13, 103, 0, b'{"id": "x"}'),
    ]
    assert rows[1]["reason"] == 'field id: expected long, found "x"'
