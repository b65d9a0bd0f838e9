"""What every published table has in common: types that Iceberg knows, and the date of the run."""

from dataclasses import replace

import pyarrow as pa

from spark_jobs.tables.contract import Column, Contract

RUN_DATE = Column("run_date", pa.date32(), "date of the run that published the row; tables are divided by it")

_WIDER: dict[pa.DataType, pa.DataType] = {
    pa.int8(): pa.int32(),
    pa.int16(): pa.int32(),
    pa.uint32(): pa.int64(),
}
"""Iceberg has no integer below 32 bits and none without a sign."""


def published(contract: Contract) -> Contract:
    """The form in which readers get the table of `contract`."""
    columns = tuple(replace(column, type=_WIDER.get(column.type, column.type)) for column in contract.columns)
    return replace(contract, columns=(*columns, RUN_DATE), key=(RUN_DATE.name, *contract.key))
