"""Whether executors can reach what a configuration names."""

from collections.abc import Iterator

from spark_jobs.config.settings import Settings
from spark_jobs.config.yaml_file import InvalidConfig
from spark_jobs.spark_master import is_on_this_machine

REMOTE = "s3://"


def check_executors_reach(settings: Settings, master: str) -> None:
    """Refuses paths of this machine where executors run on others."""
    if is_on_this_machine(master) or settings.spark.shared_paths:
        return
    paths = [f"{name} {path}" for name, path in _locations(settings) if not path.startswith(REMOTE)]
    if paths:
        raise InvalidConfig(
            f"spark.master {master} has executors on other machines, which do not see the path of "
            f"{', '.join(paths)}: use s3://…, or set spark.shared_paths: true if every executor has that path"
        )


def _locations(settings: Settings) -> Iterator[tuple[str, str]]:
    yield "lake", settings.lake
    yield from ((f"source '{source.name}'", source.root) for source in settings.sources)
