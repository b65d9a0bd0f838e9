import pytest

from spark_jobs.config.load import InvalidConfig
from spark_jobs.config.settings import ValueType
from tests.config.test_load import SMALLEST, parse


def test_a_topic_s_json_fields_are_declared_with_their_types() -> None:
    settings = parse(f"{SMALLEST}topics: {{a: {{value: json, fields: {{id: long}}, required: [id]}}}}")
    assert settings.topic("a").fields == {"id": ValueType.LONG}


@pytest.mark.parametrize(
    ("topic", "allowed"),
    [
        ("{fields: {id: long}}", "'fields' and 'required' only where value is json"),
        ("{value: json}", "'fields' where value is json"),
        ("{value: json, fields: {id: long}, required: [x]}", "only declared fields among 'required'"),
        ("{value: json, fields: {Offset: long}}", "not called like a column that every table has"),
        ("{value: json, fields: {a: long, A: long}}", "differ by more than case"),
        ("{value: json, fields: {'a b': long}}", "letters, digits and '_'"),
        ("{value: json, fields: {a: decimal}}", "'string', 'long', 'double' or 'boolean'"),
    ],
)
def test_what_a_table_could_not_hold_is_refused(topic: str, allowed: str) -> None:
    with pytest.raises(InvalidConfig, match=allowed):
        parse(f"{SMALLEST}topics: {{a: {topic}}}")


@pytest.mark.parametrize(("text", "seconds"), [("90m", 5400), ("26h", 93_600), ("'2 d'", 172_800)])
def test_the_objective_for_freshness_is_a_duration(text: str, seconds: int) -> None:
    settings = parse(f"{SMALLEST}topics: {{'a*': {{freshness: {text}}}}}")
    assert (settings.topic("ab").freshness, settings.topic("b").freshness) == (seconds, None)


@pytest.mark.parametrize("text", ["26", "0h", "-1h", "26 hours", "1w", "true"])
def test_what_is_not_a_duration_is_refused(text: str) -> None:
    with pytest.raises(InvalidConfig, match="a duration, such as 90m, 26h or 2d"):
        parse(f"{SMALLEST}topics: {{a: {{freshness: {text}}}}}")
