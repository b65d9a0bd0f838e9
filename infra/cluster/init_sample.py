"""Writes two days of sample data into the sources of the cluster's configuration; then ends."""

import os
from pathlib import Path

from spark_jobs.config.load import load_settings
from spark_jobs.config.settings import Settings
from spark_jobs.lake.stores import open_source
from spark_jobs.sample.files import sample_files


def main() -> None:
    put_sample(load_settings(Path(os.environ["ONCEOVER_CONFIG"])))


def put_sample(settings: Settings) -> None:
    """Every file of the sample below the root of its source; the same bytes each time."""
    stores = {source.name: open_source(settings, source) for source in settings.sources}
    for path, data in sample_files():
        name, _, key = path.partition("/")
        if name in stores:
            stores[name].put(key, data)


if __name__ == "__main__":
    main()
