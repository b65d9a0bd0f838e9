"""Loads the configuration, all of it or not at all."""

from pathlib import Path

from pydantic import ValidationError

from spark_jobs.config.messages import describe
from spark_jobs.config.settings import Settings
from spark_jobs.config.yaml_file import InvalidConfig, parse


def load_settings(path: Path) -> Settings:
    """The settings in the YAML file at `path`; raises `InvalidConfig` with every error, one per line."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidConfig(f"{path}: cannot be read: {error}") from error
    return parse_settings(text, name=str(path), base=path.resolve().parent)


def parse_settings(text: str, *, name: str, base: Path) -> Settings:
    """The settings in `text`; relative paths start at `base`, messages call the file `name`."""
    file = parse(text, name=name)
    try:
        return Settings.model_validate({} if file.data is None else file.data, context={"base": base})
    except ValidationError as error:
        raise InvalidConfig("\n".join(describe(error.errors(), file))) from None
