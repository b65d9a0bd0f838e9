"""The table of a topic as the settings declare it: every table's columns, and those of its JSON values."""

import pyarrow as pa

from spark_jobs.config.settings import Settings
from spark_jobs.config.values import ValueType
from spark_jobs.tables.contract import Column, Contract
from spark_jobs.tables.materialise import records_contract

VALUE_TYPES: dict[ValueType, pa.DataType] = {
    ValueType.STRING: pa.string(),
    ValueType.LONG: pa.int64(),
    ValueType.DOUBLE: pa.float64(),
    ValueType.BOOLEAN: pa.bool_(),
}


def topic_contract(settings: Settings, topic: str, name: str) -> Contract:
    """What the table of `topic`, which is called `name`, promises."""
    fields = settings.topic(topic).fields
    columns = (
        Column(name, VALUE_TYPES[kind], f"field {name} of the value", True) for name, kind in fields.items()
    )
    return records_contract(topic, name, tuple(columns))
