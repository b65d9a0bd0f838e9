"""The Terraform files: buckets closed to the world, roles with no right too many, names that fit."""

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import hcl2
import pytest

from spark_jobs.config.load import load_settings
from spark_jobs.config.settings import CatalogKind

ROOT = Path(__file__).parents[2]
TERRAFORM = ROOT / "infra" / "terraform"
AWS = ROOT / "infra" / "example" / "aws.yaml"
REFERENCE = re.compile(r"\b(?:data\.)?(aws_\w+|var|local)\.(\w+)")
OF_ALL_BUCKETS = "${aws_s3_bucket.this}"

Block = dict[str, Any]


def plain(value: Any) -> Any:
    """Without the quotes and notes that the parser leaves in."""
    if isinstance(value, dict):
        return {_unquoted(key): plain(each) for key, each in value.items() if not key.startswith("__")}
    if isinstance(value, list):
        return [plain(each) for each in value]
    return _unquoted(value)


def _unquoted(value: Any) -> Any:
    return value[1:-1] if isinstance(value, str) and value[:1] == value[-1:] == '"' else value


def blocks(kind: str) -> Iterator[tuple[str, Block]]:
    """Every block of a kind with its address below it: `aws_s3_bucket.this`."""
    for file in sorted(TERRAFORM.glob("*.tf")):
        for block in plain(hcl2.loads(file.read_text())).get(kind, []):
            [(name, inner)] = block.items()
            if kind in {"resource", "data"}:
                yield from ((f"{name}.{each}", content) for each, content in inner.items())
            else:
                yield name, inner


def resource(address: str) -> Block:
    return dict(blocks("resource"))[address]


def statements(name: str) -> dict[str, Block]:
    """A policy's statements by their ids."""
    document = dict(blocks("data"))[f"aws_iam_policy_document.{name}"]
    return {each["sid"]: each for each in document["statement"]}


def variable(name: str) -> Any:
    return dict(blocks("variable"))[name]["default"]


def test_every_bucket_is_versioned_encrypted_and_closed() -> None:
    assert resource("aws_s3_bucket_versioning.this") == {
        "for_each": OF_ALL_BUCKETS,
        "bucket": "${each.value.id}",
        "versioning_configuration": [{"status": "Enabled"}],
    }
    encryption = resource("aws_s3_bucket_server_side_encryption_configuration.this")
    assert encryption["for_each"] == OF_ALL_BUCKETS
    assert "aws:kms" in json.dumps(encryption["rule"])
    closed = resource("aws_s3_bucket_public_access_block.this")
    assert closed["for_each"] == OF_ALL_BUCKETS
    assert [closed[key] for key in closed if "public" in key] == [True] * 4


def test_no_bucket_answers_without_encryption_on_the_way() -> None:
    assert resource("aws_s3_bucket_policy.this")["for_each"] == OF_ALL_BUCKETS
    [statement] = statements("encrypted_transport").values()
    assert (statement["effect"], statement["actions"]) == ("Deny", ["s3:*"])
    assert statement["condition"][0]["variable"] == "aws:SecureTransport"


@pytest.mark.parametrize("bucket", ["raw", "lake"])
def test_old_versions_and_unfinished_uploads_do_not_stay_for_ever(bucket: str) -> None:
    lifecycle = resource(f"aws_s3_bucket_lifecycle_configuration.{bucket}")
    assert lifecycle["bucket"] == f'${{aws_s3_bucket.this["{bucket}"].id}}'
    [rule] = lifecycle["rule"]
    assert {"noncurrent_version_expiration", "abort_incomplete_multipart_upload"} <= rule.keys()


def test_nothing_current_expires_in_the_lake() -> None:
    [rule] = resource("aws_s3_bucket_lifecycle_configuration.lake")["rule"]
    assert "expiration" not in rule
    assert "dynamic" not in rule


def test_jobs_write_to_the_lake_alone_and_only_read_raw() -> None:
    found = statements("job")
    writing = {
        sid
        for sid, each in found.items()
        if any(re.search("Put|Delete", action) for action in each["actions"])
    }
    assert writing == {"ReadAndWriteLake"}
    assert found["ReadAndWriteLake"]["resources"] == ['${aws_s3_bucket.this["lake"].arn}/*']
    assert found["ReadRaw"] == {
        "sid": "ReadRaw",
        "actions": ["s3:GetObject"],
        "resources": ['${aws_s3_bucket.this["raw"].arn}/*'],
    }


def test_gateways_cannot_read_and_readers_cannot_write() -> None:
    [gateway] = statements("gateway").values()
    assert not [action for action in gateway["actions"] if "Get" in action or "List" in action]
    for statement in statements("reader").values():
        assert all(re.match(r"(s3|glue):(Get|List)", action) for action in statement["actions"])


@pytest.mark.parametrize("name", ["job", "gateway", "reader"])
def test_no_right_is_given_by_a_wildcard_or_on_everything(name: str) -> None:
    for statement in statements(name).values():
        assert not [action for action in statement["actions"] if "*" in action]
        assert "*" not in statement["resources"]


def test_rights_on_the_catalog_end_at_our_two_databases() -> None:
    assert statements("job")["EnterTables"]["resources"] == "${local.tables}"
    [locals_] = [each for name, each in local_values() if name == "tables"]
    assert "catalog" in locals_
    assert "database/${database}" in locals_
    assert "table/${database}/*" in locals_
    databases = dict(local_values())["databases"]
    assert set(re.findall(r"aws_glue_catalog_database\.(\w+)", str(databases))) == {"topics", "own"}


def local_values() -> Iterator[tuple[str, str]]:
    for file in sorted(TERRAFORM.glob("*.tf")):
        for block in plain(hcl2.loads(file.read_text())).get("locals", []):
            yield from ((name, str(value)) for name, value in block.items())


def test_everything_that_is_referred_to_is_declared_and_every_variable_is_used() -> None:
    text = "\n".join(file.read_text() for file in TERRAFORM.glob("*.tf"))
    declared = {address for kind in ("resource", "data") for address, _ in blocks(kind)}
    declared |= {f"var.{name}" for name, _ in blocks("variable")} | {
        f"local.{name}" for name, _ in local_values()
    }
    used = {f"{kind}.{name}" for kind, name in REFERENCE.findall(text)}
    assert used <= declared
    assert {name for name in declared if name.startswith(("var.", "local."))} <= used


@pytest.mark.parametrize("kind", ["variable", "output"])
def test_every_variable_and_output_says_what_it_is(kind: str) -> None:
    found = dict(blocks(kind))
    assert found
    assert all(block["description"].endswith(".") for block in found.values())


def test_the_example_configuration_is_a_lake_on_what_is_made_here() -> None:
    settings, name = load_settings(AWS), variable("name")
    assert resource("aws_s3_bucket.this")["bucket"] == "${var.name}-${each.key}"
    assert settings.lake.startswith(f"s3://{name}-lake/")
    assert all(source.root.startswith(f"s3://{name}-raw/") for source in settings.sources)
    assert settings.catalog.kind is CatalogKind.GLUE
    assert settings.catalog.topics == variable("topics_database")
    assert settings.catalog.namespace == variable("own_database")
    assert settings.s3.endpoint_url is None


def test_the_formatter_has_nothing_to_say() -> None:
    tool = shutil.which("tofu") or shutil.which("terraform")
    if tool is None:
        pytest.skip("neither tofu nor terraform is installed; the other tests here still hold")
    done = subprocess.run(
        [tool, "fmt", "-check", "-diff", TERRAFORM], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout
