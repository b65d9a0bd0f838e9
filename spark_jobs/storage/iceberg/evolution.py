"""How a table comes to the columns of its contract: it is begun with them, or gets those that are new."""

from dataclasses import dataclass
from typing import Any

from pyiceberg.catalog import Catalog, MetastoreCatalog
from pyiceberg.io import FileIO, load_file_io
from pyiceberg.schema import Schema
from pyiceberg.table import Table, TableProperties, Transaction

from spark_jobs.storage.errors import PublishedDiffers
from spark_jobs.storage.iceberg.schema import division, iceberg_schema, name_mapping
from spark_jobs.storage.iceberg.target import TableTarget
from spark_jobs.storage.iceberg.transaction import RememberingTransaction
from spark_jobs.tables.materialise import RECORDS
from spark_jobs.tables.publish import OWN_TABLES

NEW_LAKE = (
    "an earlier version of Onceover made the table, and Iceberg cannot change the type of such a column: "
    "set 'lake' to a new, empty location and run the dates again from their sources; "
    "the old lake stays as it is"
)
_OURS = {column.name for contract in (RECORDS, *OWN_TABLES.values()) for column in contract.columns}


@dataclass(frozen=True, slots=True)
class TableChange:
    """A transaction on a table, and access to the table's files."""

    transaction: Transaction
    io: FileIO


def begin_change(catalog: Catalog, table: Table | None, target: TableTarget) -> TableChange:
    """A transaction in which the table has all columns of its contract; where there is none, it makes one.

    A REST server may be one that makes tables only ahead of their first commit.
    """
    if table is None and isinstance(catalog, MetastoreCatalog):
        creation = catalog.create_table_transaction(**_new_table(target))
        return TableChange(creation, load_file_io(catalog.properties, creation.table_metadata.location))
    if table is None:
        created = catalog.create_table(**_new_table(target))
        return TableChange(created.transaction(), created.io)
    transaction = RememberingTransaction(table)
    _evolve(transaction, target)
    return TableChange(transaction, table.io)


def _new_table(target: TableTarget) -> dict[str, Any]:
    schema = iceberg_schema(target.contract)
    properties = {
        TableProperties.DEFAULT_NAME_MAPPING: name_mapping(schema),
        TableProperties.COMMIT_NUM_RETRIES: "0",  # we look at the table ourselves before we try again
        **target.properties(),
    }
    return {
        "identifier": target.name,
        "schema": schema,
        "partition_spec": division(schema),
        "properties": properties,
    }


def _evolve(transaction: Transaction, target: TableTarget) -> None:
    """New columns of the contract are added; those that it no longer has stay, empty from now on.

    A column that may be null from now on becomes optional.
    """
    standing, wanted = transaction.table_metadata.schema(), iceberg_schema(target.contract)
    _check_types(standing, wanted, target)
    required = {field.name for field in standing.fields if field.required}
    relaxed = [field.name for field in wanted.fields if field.optional and field.name in required]
    if not relaxed and not set(wanted.column_names) - set(standing.column_names):
        return
    with transaction.update_schema() as update:
        update.union_by_name(wanted)
    mapping = name_mapping(transaction.table_metadata.schema())
    transaction.set_properties({TableProperties.DEFAULT_NAME_MAPPING: mapping})


def _check_types(standing: Schema, wanted: Schema, target: TableTarget) -> None:
    """Files of earlier runs keep their types, so a column cannot become something else."""
    types = {field.name: field.field_type for field in standing.fields}
    for field in wanted.fields:
        old = types.get(field.name, field.field_type)
        if str(old) != str(field.field_type) and field.field_type.is_primitive:
            remedy = NEW_LAKE if field.name in _OURS else "give the field another name"
            raise PublishedDiffers(
                f"{'.'.join(target.name)}: its column {field.name} is {old}, now it should be "
                f"{field.field_type}; {remedy}"
            )
