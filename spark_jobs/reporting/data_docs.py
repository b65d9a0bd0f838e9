"""Data Docs beside the dashboard, so that both travel together and links between them hold."""

import re
from collections.abc import Iterator

from spark_jobs.flow import Step
from spark_jobs.reporting.run_tables import RunTables

DOCS = "docs"
STYLE = "assets/docs.css"
_INLINE_STYLE = re.compile(rb"<style>(.*?)</style>", re.DOTALL)


def docs_files(tables: RunTables) -> Iterator[tuple[str, bytes]]:
    """The run's pages, with their style in a file: a strict server lets no page bring its own."""
    prefix = tables.key(Step.AUDIT, DOCS) + "/"
    for found in tables.lake.list(prefix):
        page = tables.lake.read(found.key)
        style = _INLINE_STYLE.search(page)
        if style is not None:
            yield STYLE, style[1]
            page = _INLINE_STYLE.sub(f'<link rel="stylesheet" href="../../{STYLE}">'.encode(), page)
        yield f"{DOCS}/{tables.run_id}/{found.key.removeprefix(prefix)}", page
