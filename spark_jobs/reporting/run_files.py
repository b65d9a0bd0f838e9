"""All files of one run: its page, partitions, topics, producers, transactions, batches and Data Docs."""

from collections.abc import Iterator

from spark_jobs.reporting.batch_counts import Producers
from spark_jobs.reporting.data_docs import docs_files
from spark_jobs.reporting.explorer import explorer_files
from spark_jobs.reporting.key_skew import key_skews
from spark_jobs.reporting.partition_view import partition_files, partition_views
from spark_jobs.reporting.producer_view import producer_view
from spark_jobs.reporting.run_tables import RunTables
from spark_jobs.reporting.run_view import run_view
from spark_jobs.reporting.site_files import NamedData, SiteFiles
from spark_jobs.reporting.topic_view import topic_files
from spark_jobs.reporting.transaction_view import transaction_view
from spark_jobs.storage.ledger import LedgerLine


def write_run(site: SiteFiles, line: LedgerLine) -> None:
    """Write what the site shows of the run, from the tables in its folder."""
    tables = RunTables(site.lake, line.run_id)
    docs = dict(docs_files(tables))
    for path, page in docs.items():
        site.put(path, page)
    site.put_data(run_data(line, tables, has_docs=bool(docs)))


def run_data(line: LedgerLine, tables: RunTables, *, has_docs: bool) -> Iterator[NamedData]:
    """The run's data files, one after the other."""
    base = f"run/{line.run_id}"
    producers: Producers = {}
    partitions = partition_views(tables, producers)
    transactions = transaction_view(tables, set(producers))
    yield f"{base}/run", {**run_view(line, tables), "docs": has_docs}
    yield f"{base}/producers", producer_view(tables, producers, transactions.owners)
    yield f"{base}/transactions", transactions.shown()
    yield from partition_files(line.run_id, partitions)
    yield from topic_files(line.run_id, partitions, key_skews(tables))
    yield from explorer_files(tables, partitions)
