"""The documented example: complete, true to the defaults, and it runs."""

from datetime import date
from pathlib import Path

import pytest
from pydantic import BaseModel

from spark_jobs.config.audit import AuditSettings
from spark_jobs.config.load import load_settings
from spark_jobs.config.settings import (
    CatalogSettings,
    KafkaSettings,
    Limits,
    MetricsSettings,
    RetentionSettings,
    S3Settings,
    Settings,
    SparkSettings,
    TopicSettings,
)
from spark_jobs.lake.chain import Chain
from spark_jobs.lake.manifest import ObjectRole
from spark_jobs.lake.stores import open_lake
from spark_jobs.pipeline.stage.step import stage

EXAMPLE = Path(__file__).parents[2] / "infra" / "example" / "onceover.yaml"


def test_it_stages_a_run(tmp_path: Path) -> None:
    settings = load_settings(EXAMPLE).model_copy(update={"lake": str(tmp_path / "lake")})
    manifest = stage(settings, date(2024, 5, 1), lake=open_lake(settings), chain=Chain())
    assert manifest.problems == ()
    assert {ObjectRole.LOG, ObjectRole.SNAPSHOT, ObjectRole.TXN_INDEX} <= {
        entry.role for entry in manifest.entries
    }
    assert "__transaction_state" in {entry.topic for entry in manifest.entries}


@pytest.mark.parametrize(
    ("key", "defaults"),
    [
        ("s3", S3Settings()),
        ("kafka", KafkaSettings()),
        ("limits", Limits()),
        ("spark", SparkSettings()),
        ("catalog", CatalogSettings()),
        ("audit", AuditSettings()),
        ("metrics", MetricsSettings()),
        ("retention", RetentionSettings()),
    ],
)
def test_what_it_shows_are_the_defaults(key: str, defaults: BaseModel) -> None:
    assert getattr(load_settings(EXAMPLE), key) == defaults
    assert load_settings(EXAMPLE).topic("any") == TopicSettings()


def test_it_names_every_key() -> None:
    shown = EXAMPLE.read_text()
    assert not [name for name in _names(Settings) if f"{name}:" not in shown]


def _names(model: type[BaseModel]) -> set[str]:
    """The keys of a group and of the groups inside it."""
    inner = {
        name
        for field in model.model_fields.values()
        for part in (field.annotation, *getattr(field.annotation, "__args__", ()))
        if isinstance(part, type) and issubclass(part, BaseModel)
        for name in _names(part)
    }
    return set(model.model_fields) | inner
