"""A configuration that means harm is refused with a sentence, in little time and memory."""

from pathlib import Path

import pytest

from spark_jobs.config.load import MOST_CHARACTERS, InvalidConfig, parse_settings

REST = "\nsources: [{name: a, kind: capture, root: b}]\n"
LAUGHS = "a: &a [x,x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{name}: &{name} [{','.join([f'*{before}'] * 10)}]\n"
    for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)
"""Nine lines that expand to a billion values."""
HOSTILE = {
    "aliases of aliases": (f"{LAUGHS}lake: *i{REST}", "lake: found [[["),
    "itself": (f"lake: &a [*a]{REST}", "lake: found [[[["),
    "very deep": ("lake: " + "[" * 5000 + "]" * 5000 + REST, "hundreds of levels deep"),
    "very long": (f"lake: {'x' * MOST_CHARACTERS}{REST}", "allowed: up to"),
    "a number of 5000 digits": (f"lake: {'9' * 5000}{REST}", "a number that is too long"),
    "no date": (f"lake: 2024-99-99{REST}", "an invalid date"),
    "code": (f"lake: !!python/object/apply:os.system ['id']{REST}", "could not determine a constructor"),
    "another object": (f"lake: !!python/name:os.system{REST}", "could not determine a constructor"),
    "a path out of a bucket": (f"lake: s3://bucket/../other{REST}", "a path, or s3://bucket/prefix"),
    "a byte of zero": (f'lake: "a\\0b"{REST}', "a path, or s3://bucket/prefix"),
}
SECRETS = (
    "catalog: {properties: {s3.secret-access-key: MARKED}}",
    "catalog: {properties: {rest.api-key: MARKED}}",
    "catalog: {properties: {header.Authorization: MARKED}}",
    "catalog: {kind: sql, uri: 'postgresql://user:MARKED@host/db'}",
    "catalog: {kind: sql, uri: 'postgresql://host/db?user=u&password=MARKED'}",
    "spark: {conf: {spark.hadoop.fs.s3a.secret.key: MARKED}}",
    "spark: {conf: {spark.hadoop.fs.azure.account.key: MARKED}}",
    "s3: {endpoint_url: 'https://user:MARKED@host'}",
    "password: MARKED",
)


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_file_is_refused_with_a_sentence(name: str, tmp_path: Path) -> None:
    text, words = HOSTILE[name]
    with pytest.raises(InvalidConfig) as refused:
        parse_settings(text, name="onceover.yaml", base=tmp_path)
    assert words in str(refused.value)
    assert len(str(refused.value)) < 2000


@pytest.mark.parametrize("line", SECRETS)
def test_a_secret_in_the_file_is_refused_and_not_repeated(line: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidConfig, match="what looks like a secret") as refused:
        parse_settings(f"lake: lake{REST}{line}\n", name="onceover.yaml", base=tmp_path)
    assert "MARKED" not in str(refused.value)
