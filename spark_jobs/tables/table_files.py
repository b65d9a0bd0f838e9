"""`table_files`: the files that a step made for published tables."""

import pyarrow as pa

from spark_jobs.tables.contract import Column, Contract

LISTING = "files.parquet"
RECORDS, REPLAYED = "records/", "replayed/"
"""Where files of topics' tables stand: the night's own records, and those of earlier nights' quarantine."""

TABLE_FILES = Contract(
    name="table_files",
    meaning="Every file that is to become part of a published table.",
    columns=(
        Column("namespace", pa.string(), "namespace of the table"),
        Column("table", pa.string(), "name of the table; of a topic's, which `publish` names, its folder"),
        Column(
            "topic", pa.string(), "topic whose records the table holds; null for Onceover's own tables", True
        ),
        Column(
            "file", pa.string(), "path below the step's folder; null says that the table has no news", True
        ),
        Column("rows", pa.int64(), "rows in the file"),
        Column("bytes", pa.int64(), "size of the file"),
    ),
    key=("namespace", "table", "file"),
)
