"""A transaction remembers the table's metadata until something changes it."""

from pathlib import Path

from spark_jobs.lake.iceberg.catalog import open_catalog
from spark_jobs.lake.iceberg.schema import RememberingTransaction
from tests.lake.iceberg.places import made_table, settings_at, stamp_of, target_of


def test_the_metadata_is_worked_out_again_after_each_update_only(tmp_path: Path) -> None:
    settings = settings_at(tmp_path)
    with open_catalog(settings) as catalog:
        table = made_table(catalog, target_of(settings, stamp_of("r1")))
        with RememberingTransaction(table) as transaction:
            before = transaction.table_metadata
            assert transaction.table_metadata is before
            transaction.set_properties({"colour": "blue"})
            blue = transaction.table_metadata
            assert blue.properties["colour"] == "blue"
            assert transaction.table_metadata is blue
            transaction.set_properties({"colour": "red"})
            assert transaction.table_metadata.properties["colour"] == "red"
        assert "colour" not in before.properties
        assert table.properties["colour"] == "red"
