"""A run that is taken back leaves no row and no tag behind, and its run can run again."""

from datetime import date
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.catalog.sql import SqlCatalog

from spark_jobs.config.load import parse_settings
from spark_jobs.config.settings import Settings
from spark_jobs.flow import Step
from spark_jobs.lake.chain import make_final, read_chain
from spark_jobs.lake.errors import ObjectMissing, OutOfTurn, PublishFailed
from spark_jobs.lake.iceberg.catalog import open_catalog
from spark_jobs.lake.stores import open_lake
from spark_jobs.operations.rollback import roll_back
from spark_jobs.pipeline.context import RunContext
from tests.pipeline.materialise.truth import DATA, recorded_partitions
from tests.pipeline.resolved import do_until_published, resolved_run


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    root = DATA / "oracle_E" / "data"
    config = f"lake: lake\nsources: [{{name: broker, kind: broker-log, root: '{root}', immutable: true}}]\n"
    return parse_settings(config, name="test.yaml", base=tmp_path)


def _publish(settings: Settings, name: str, day: int) -> RunContext:
    """A final run of one recorded partition."""
    directories = [path for path in recorded_partitions("oracle_E") if path.name == name]
    context = resolved_run(
        settings, directories, day=date(2024, 5, day), state_in=_state_before(settings, day)
    )
    do_until_published(context)
    chain = read_chain(context.lake)
    make_final(
        context.lake, chain, context.folder.inputs, state_out=f"s{day}", last_step=Step.PUBLISH, outputs="o"
    )  # fmt: skip
    return context


def _state_before(settings: Settings, day: int) -> str:
    return read_chain(open_lake(settings)).state_before(date(2024, 5, day))


def _cuts(settings: Settings) -> dict[str, Any]:
    """Of every table the rows and the tags."""
    with open_catalog(settings) as catalog:
        names = [name for namespace in catalog.list_namespaces() for name in catalog.list_tables(namespace)]
        tables = {".".join(name): catalog.load_table(name) for name in names}
        return {
            name: (sorted(map(str, table.scan().to_arrow().to_pylist())), sorted(table.refs()))
            for name, table in tables.items()
        }


def test_the_tables_are_as_they_were_before_the_run(settings: Settings) -> None:
    _publish(settings, "orc-1", 1)
    before = _cuts(settings)
    second = _publish(settings, "orc-2", 2)
    assert _cuts(settings) != before
    assert roll_back(settings, second.folder.run_id) == len(before)
    assert _cuts(settings) == before
    assert read_chain(second.lake).run_of(date(2024, 5, 2)) is None


def test_taking_a_run_back_twice_changes_nothing_more(settings: Settings) -> None:
    run_id = _publish(settings, "orc-1", 1).folder.run_id
    roll_back(settings, run_id)
    before = _cuts(settings)
    assert roll_back(settings, run_id) == 0
    assert _cuts(settings) == before


def test_the_run_can_be_published_again(settings: Settings) -> None:
    first = _publish(settings, "orc-1", 1)
    before = _cuts(settings)
    roll_back(settings, first.folder.run_id)
    assert first.folder.done(Step.PUBLISH) is None
    _publish(settings, "orc-1", 1)
    assert _cuts(settings) == before


def test_a_run_that_later_runs_build_upon_stays(settings: Settings) -> None:
    first, second = _publish(settings, "orc-1", 1), _publish(settings, "orc-2", 2)
    before = _cuts(settings)
    with pytest.raises(OutOfTurn, match=f"run {second.folder.run_id} of a later date builds upon it"):
        roll_back(settings, first.folder.run_id)
    assert _cuts(settings) == before


def test_an_unknown_run_is_reported(settings: Settings) -> None:
    with pytest.raises(ObjectMissing, match="has no such run"):
        roll_back(settings, "2024-05-01-0000000000000000")


@pytest.mark.parametrize("landed", [False, True])
def test_a_lost_answer_is_settled_by_what_the_table_says(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, landed: bool
) -> None:
    run_id = _publish(settings, "orc-1", 1).folder.run_id
    original = SqlCatalog.commit_table

    def broken(catalog: SqlCatalog, *arguments: Any, **named: Any) -> Any:
        if landed:
            original(catalog, *arguments, **named)
        raise ConnectionError

    with monkeypatch.context() as patched:
        patched.setattr(SqlCatalog, "commit_table", broken)
        if landed:
            roll_back(settings, run_id)
        else:
            with pytest.raises(PublishFailed):
                roll_back(settings, run_id)
    roll_back(settings, run_id)
    assert all(rows == [] and run_id not in tags for rows, tags in _cuts(settings).values())


def test_an_unfinished_run_is_taken_back_and_what_it_replaced_is_published_again(settings: Settings) -> None:
    _publish(settings, "orc-1", 1)
    second = _publish(settings, "orc-2", 2)
    before = _cuts(settings)
    directories = [path for path in recorded_partitions("oracle_E") if path.name == "orc-0"]
    unfinished = resolved_run(
        settings, directories, day=date(2024, 5, 1), state_in=_state_before(settings, 1)
    )
    do_until_published(unfinished)
    assert _rows(_cuts(settings)) != _rows(before)
    assert roll_back(settings, unfinished.folder.run_id) > 0
    assert _rows(_cuts(settings)) == _rows(before)
    assert all(unfinished.folder.run_id not in tags for _, tags in _cuts(settings).values())
    assert read_chain(second.lake).run_of(date(2024, 5, 2)) is not None


def _rows(cuts: dict[str, Any]) -> dict[str, list[str]]:
    """Of the tables that have any."""
    return {name: rows for name, (rows, _) in cuts.items() if rows}
