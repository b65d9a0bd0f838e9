"""Why nothing in a source is recognised: what was found there, what is expected, what to change."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from spark_jobs.config.sources import Source
from spark_jobs.protocol.log_files import parse_file_name, parse_partition_dir
from spark_jobs.storage.keys import printable
from spark_jobs.storage.manifest import BareSource
from spark_jobs.storage.placement import LOG_DIRECTORY_FILES, split_date
from spark_jobs.storage.taken import Taken

MOST_EXAMPLES = 3
REDPANDA_SEGMENT = re.compile(r"(?:^|/)[^/]+/\d+_\d+/\d+-\d+-v\d+\.log$")
"""`<topic>/<partition>_<revision>/<base offset>-<term>-v<version>.log`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unrecognised:
    """A source without an object of a partition: how many objects it has, and some of their paths."""

    source: Source
    objects: int
    examples: tuple[str, ...]

    def bare(self, taken: Taken) -> BareSource:
        """As the manifest holds it."""
        is_known = any(name == self.source.name for name, _ in taken.contents)
        return BareSource(
            bare=self.source.name, objects=self.objects, is_known=is_known, detail=_describe(self)
        )


def first_paths(known: Sequence[str], path: str) -> list[str]:
    """The first few paths by name, whatever order a store lists them in."""
    return sorted((*known, path))[:MOST_EXAMPLES]


def _describe(found: Unrecognised) -> str:
    source = found.source
    below = f"{source.root}/{source.dates}" if source.dates else source.root
    if not found.objects:
        return f"no objects below {below}; expected directories named <topic>-<partition>, such as orders-0"
    count = "1 object" if found.objects == 1 else f"{found.objects:,} objects"
    shown = ", ".join(map(printable, found.examples))
    more = ", …" if found.objects > len(found.examples) else ""
    return f"{count} ({shown}{more}), none of them recognised: {_reason(source, found.examples)}"


def _reason(source: Source, examples: Sequence[str]) -> str:
    """The likeliest mistake, by how the objects are called."""
    paths = [split_date(path, source.dates)[1] for path in examples]
    names = [path.rpartition("/")[2] for path in paths]
    topics = [found.topic for path in paths if (found := parse_partition_dir(_directory(path))) is not None]
    if any(map(REDPANDA_SEGMENT.search, paths)):
        return "this is a data directory of Redpanda, whose log format is not Kafka's"
    if source.dates is not None and all(split_date(path, source.dates)[0] is None for path in examples):
        return f"their directories do not spell a date as {source.dates}; see dates and root"
    if topics and not any(map(source.topics.takes, topics)):
        return f"they are of topics that the source leaves out, such as {printable(topics[0])}; see topics"
    if any("/" not in path and parse_file_name(path) is not None for path in paths):
        return "root is the directory of one partition; it should be the directory above, which holds it"
    if any(name in LOG_DIRECTORY_FILES for name in names):
        return "this is a log directory without partitions; another of the broker's log.dirs may hold them"
    return "none is in a <topic>-<partition> directory; root should be the directory that holds orders-0"


def _directory(path: str) -> str:
    return path.rpartition("/")[0].rpartition("/")[2]
