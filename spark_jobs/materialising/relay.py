"""Tables of earlier steps that are published as they are: cast to what readers get, with the run's date."""

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from spark_jobs.materialising.summaries import TableFile, Workshop
from spark_jobs.materialising.table_files import TableFiles
from spark_jobs.storage.parquet_file import iter_rows
from spark_jobs.tables.contract import RUN_DATE, as_published
from spark_jobs.tables.publish import OWN_TABLES


@dataclass(frozen=True, slots=True, kw_only=True)
class RelayTask:
    """Files of one table, by their keys in the lake."""

    table: str
    keys: Sequence[str]
    workshop: Workshop


def relay_table(task: RelayTask) -> tuple[TableFile, ...]:
    """Writes the table's share of the run; the same task again writes the same bytes."""
    schema, run_date = OWN_TABLES[task.table].schema, task.workshop.run_date
    with TableFiles(task.workshop, lambda part: f"{task.table}/{part:05d}.parquet", schema) as output:
        for key in task.keys:
            for rows in iter_rows(task.workshop.lake, key):
                dates = pa.repeat(pa.scalar(run_date, pa.date32()), rows.num_rows)
                table = pa.Table.from_batches([rows]).append_column(RUN_DATE.name, dates)
                output.add(as_published(table, schema))
        return output.finish()
