"""`index_files`: the files that hold the table `index`, in arrival order."""

import pyarrow as pa

from spark_jobs.tables.contract import Column, Contract

LISTING = "files.parquet"
"""Where the table stands below the folder of the step index."""

INDEX_FILES = Contract(
    name="index_files",
    meaning="Every file of the run's index; those of one copy of a partition follow in arrival order.",
    columns=(
        Column("topic", pa.string(), "topic of the batches"),
        Column("partition", pa.int32(), "partition of the batches"),
        Column("copy", pa.int32(), "which copy of the partition's log: 0 for captures, else one per replica"),
        Column("source", pa.string(), "name of the copy's source; the first one where captures are joined"),
        Column("directory", pa.string(), "directory of the copy below its source; empty for captures"),
        Column("file", pa.string(), "path below the folder of the step index"),
        Column("object_order", pa.int32(), "the first object in the file"),
        Column("position", pa.int64(), "first byte of that object that the file covers"),
        Column("rows", pa.int64(), "rows in the file"),
        Column("bytes", pa.int64(), "bytes of the staged objects that the rows cover"),
        Column("problems", pa.int64(), "rows that are no batch"),
    ),
    key=("file",),
)
