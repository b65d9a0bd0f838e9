"""What the site already shows, so that updating it costs only what is new."""

import json
from dataclasses import asdict, dataclass, field

from spark_jobs.config.canonical import canonical_json, digest_of
from spark_jobs.reporting.site_files import SiteFiles
from spark_jobs.storage.ledger import LedgerLine

FORMAT = 4
"""Another one means that every file is written anew."""
PLACE = "data/memory.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """Fingerprints: of each run as it was shown, and of the runs that each month's files were made of.

    `shards` are the files that each month has, as one letter each.
    """

    format: int = FORMAT
    runs: dict[str, str] = field(default_factory=dict)
    months: dict[str, str] = field(default_factory=dict)
    shards: dict[str, str] = field(default_factory=dict)


def fingerprint(line: LedgerLine) -> str:
    """Changes when anything about the run does."""
    return digest_of({**asdict(line), "day": line.day.isoformat()})


def recall(site: SiteFiles) -> Memory:
    """What was noted last time; nothing if a version of other files wrote it."""
    if site.lake.stat(site.key(PLACE)) is None:
        return Memory()
    noted = json.loads(site.lake.read(site.key(PLACE)))
    return Memory(**noted) if noted.get("format") == FORMAT else Memory()


def remember(site: SiteFiles, memory: Memory) -> None:
    """Notes it down, after everything else is written."""
    site.put(PLACE, canonical_json(asdict(memory)))
