"""Each topic over time: a file per month and shard, so that a run rewrites one month only."""

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from spark_jobs.config.canonical import digest_of
from spark_jobs.reporting.site_files import SiteFiles, shard_of
from spark_jobs.storage.chain import ChainEntry

COLUMNS = ("day", "run", "records", "batches", "verdicts", "lag")

Months = dict[str, list[ChainEntry]]


def by_month(speaking: Sequence[ChainEntry]) -> Months:
    """The current runs, by month such as `2026-03`."""
    months: Months = defaultdict(list)
    for entry in speaking:
        months[f"{entry.day:%Y-%m}"].append(entry)
    return dict(months)


def month_fingerprint(entries: Sequence[ChainEntry], fingerprints: dict[str, str]) -> str:
    """Changes when one of the month's runs changes or is replaced."""
    return digest_of([[entry.run_id, fingerprints.get(entry.run_id, "")] for entry in entries])


def month_shards(site: SiteFiles, entries: Sequence[ChainEntry]) -> dict[str, dict[str, Any]]:
    """The series of every topic in the month by shard, from what the site has of its runs."""
    shards: dict[str, dict[str, Any]] = defaultdict(dict)
    for entry in entries:
        for row in site.read_data(f"run/{entry.run_id}/topics") or ():
            topics = shards[shard_of(row["code"])]
            series = topics.setdefault(row["code"], {"name": row["name"], "columns": COLUMNS, "rows": []})
            series["rows"].append([entry.day.isoformat(), entry.run_id, *(row[name] for name in COLUMNS[2:])])
    return dict(shards)
