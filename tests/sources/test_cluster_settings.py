"""`kind: cluster` in the configuration: what it needs, what it refuses, and where its secrets come from."""

import base64
from datetime import datetime
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

import botocore.auth
import pytest

from spark_jobs.config.load import InvalidConfig, parse_settings
from spark_jobs.config.settings import Settings
from spark_jobs.config.sources import SaslMechanism, SecurityProtocol
from spark_jobs.sources.cluster.credentials import credentials_of
from spark_jobs.sources.cluster.cut import ClusterDenied
from spark_jobs.sources.cluster.reader import IN_DRIVER_OFFSETS, Cluster
from tests.in_process import InProcess


def settings_of(source: str, lake: str = "lake") -> Settings:
    """A configuration with one source of kind cluster."""
    text = f"lake: {lake}\nsources: [{{name: live-1, kind: cluster, {source}}}]\n"
    return parse_settings(text, name="o.yaml", base=Path("/base"))


def test_segments_are_kept_in_the_lake_by_run_date() -> None:
    source = settings_of("bootstrap: 'a:9092, b:9092'").source("live-1")
    assert source.bootstrap == ("a:9092", "b:9092")
    assert (source.root, source.dates, source.immutable) == ("/base/lake/sources/live-1", "%Y-%m-%d", True)


def test_segments_of_a_lake_in_s3_are_kept_there() -> None:
    source = settings_of("bootstrap: 'a:9092'", lake="s3://bucket/lake/").source("live-1")
    assert source.root == "s3://bucket/lake/sources/live-1"


@pytest.mark.parametrize(
    ("source", "problem"),
    [
        ("topics: {include: [orders]}", "'bootstrap' where kind is cluster"),
        ("bootstrap: 'a'", "host:port"),
        ("bootstrap: 'a:9092', root: data", "no 'root' where kind is cluster"),
        ("bootstrap: 'a:9092', dates: '%Y-%m-%d'", "no 'dates' where kind is cluster"),
        ("bootstrap: 'a:9092', security: {protocol: SASL_SSL}", "'mechanism' where protocol is SASL"),
        ("bootstrap: 'a:9092', security: {mechanism: PLAIN}", "'mechanism' where protocol is SASL"),
        ("bootstrap: 'a:9092', security: {ca_file: ca.pem}", "only where protocol is SSL or SASL_SSL"),
        ("bootstrap: 'a:9092', security: {password: secret}", "ONCEOVER_<SOURCE>_PASSWORD"),
        (
            "bootstrap: 'a:9092', security: {protocol: SASL_SSL, mechanism: PLAIN, signer: aws-msk-iam}",
            "'signer' only where mechanism is OAUTHBEARER",
        ),
        ("bootstrap: 'a:9092', max_bytes_per_second: 1", "greater than or equal to 1024"),
    ],
)
def test_what_is_missing_or_out_of_place_is_named(source: str, problem: str) -> None:
    with pytest.raises(InvalidConfig, match=r"o\.yaml:2") as refused:
        settings_of(source)
    assert problem in str(refused.value)


@pytest.mark.parametrize(
    "setting", ["bootstrap: 'a:9092'", "security: {protocol: SSL}", "max_bytes_per_second: 1MB"]
)
def test_no_other_kind_has_its_settings(setting: str) -> None:
    text = f"lake: lake\nsources: [{{name: copy, kind: broker-log, root: data, {setting}}}]\n"
    with pytest.raises(InvalidConfig, match="only where kind is cluster"):
        parse_settings(text, name="o.yaml", base=Path("/base"))


PLAIN = "bootstrap: 'a:9092', security: {protocol: SASL_PLAINTEXT, mechanism: PLAIN}"
OAUTH = "bootstrap: 'a:9092', security: {protocol: SASL_SSL, mechanism: OAUTHBEARER}"


def test_credentials_are_variables_of_the_environment() -> None:
    source = settings_of(PLAIN).source("live-1")
    given = {"ONCEOVER_LIVE_1_USERNAME": "ada", "ONCEOVER_LIVE_1_PASSWORD": "s3cret"}
    found = credentials_of(source, given)
    assert (found.username, found.password) == ("ada", "s3cret")
    assert "s3cret" not in repr(found)


def test_missing_credentials_are_named_by_their_variables() -> None:
    with pytest.raises(ClusterDenied, match="ONCEOVER_LIVE_1_USERNAME and ONCEOVER_LIVE_1_PASSWORD"):
        credentials_of(settings_of(PLAIN).source("live-1"), {"ONCEOVER_LIVE_1_USERNAME": "ada"})


@pytest.mark.parametrize(
    "connection",
    ["kafka://ada:s3%2Fcret@b-1:9092", '{"conn_type": "kafka", "login": "ada", "password": "s3/cret"}'],
)
def test_credentials_may_be_an_airflow_connection(connection: str) -> None:
    source = settings_of(PLAIN.replace("PLAIN}", "PLAIN, connection: kafka_live}")).source("live-1")
    found = credentials_of(source, {"AIRFLOW_CONN_KAFKA_LIVE": connection})
    assert (found.username, found.password) == ("ada", "s3/cret")


def test_connections_that_differ_only_in_capitals_are_refused() -> None:
    """They share Airflow's variable, so one cluster would get the login of the other."""
    security = "security: {{protocol: SASL_SSL, mechanism: PLAIN, connection: {name}}}"
    sources = [
        f"{{name: s{number}, kind: cluster, bootstrap: 'a:9092', {security.format(name=name)}}}"
        for number, name in enumerate(["kafka", "KAFKA"])
    ]
    with pytest.raises(InvalidConfig, match="differ in more than capitals"):
        parse_settings(f"lake: lake\nsources: [{', '.join(sources)}]\n", name="o.yaml", base=Path("/base"))


def test_a_connection_that_is_no_uri_is_named_without_its_text() -> None:
    source = settings_of(PLAIN.replace("PLAIN}", "PLAIN, connection: kafka_live}")).source("live-1")
    with pytest.raises(ClusterDenied, match="AIRFLOW_CONN_KAFKA_LIVE is not readable as a URI") as refused:
        credentials_of(source, {"AIRFLOW_CONN_KAFKA_LIVE": "kafka://ada:s3[cret@b-1:9092"})
    assert "cret" not in str(refused.value)
    assert refused.value.__cause__ is None


def test_a_connection_that_is_missing_is_named_with_its_variable() -> None:
    source = settings_of(PLAIN.replace("PLAIN}", "PLAIN, connection: kafka_live}")).source("live-1")
    with pytest.raises(
        ClusterDenied,
        match=(
            r"Set the Airflow connection kafka_live, or outside of Airflow AIRFLOW_CONN_KAFKA_LIVE in the "
            r"environment of the driver, with a login and a password$"
        ),
    ):
        credentials_of(source, {})


@pytest.mark.parametrize(
    ("security", "master", "parallel"),
    [
        ("PLAIN, connection: kafka_live", "local[2]", 2),
        ("PLAIN, connection: kafka_live", "spark://a:7077", 1),
        ("PLAIN", "spark://a:7077", 2),
    ],
)
def test_executors_elsewhere_need_no_airflow_connection(security: str, master: str, parallel: int) -> None:
    source = settings_of(PLAIN.replace("PLAIN}", f"{security}}}")).source("live-1")
    assert Cluster(source)._parallelism(IN_DRIVER_OFFSETS + 1, InProcess(master)) == parallel


def test_a_token_comes_from_a_command_each_time(tmp_path: Path) -> None:
    token = tmp_path / "token"
    given = {"ONCEOVER_LIVE_1_TOKEN_COMMAND": f"cat '{token}'"}
    found = credentials_of(settings_of(OAUTH).source("live-1"), given)
    token.write_text("first\n")
    assert found.current_token() == "first"
    token.write_text("second\n")
    assert found.current_token() == "second"


def test_a_token_command_that_fails_is_named_without_its_output() -> None:
    found = credentials_of(
        settings_of(OAUTH).source("live-1"), {"ONCEOVER_LIVE_1_TOKEN_COMMAND": "cat /no/such/file"}
    )
    with pytest.raises(ClusterDenied, match="source live-1: the token command cat failed: exit code 1"):
        found.current_token()
    assert "/no/such/file" not in repr(found)


MSK = "bootstrap: 'b-1.shop.x1.c2.kafka.eu-west-1.amazonaws.com:9098'"
MSK_SIGNATURE = "716e891a120072d2efed41b7b29ee70c45eb0f0cdac1c96ca46856ce07938506"
"""By aws-msk-iam-sasl-signer-python 1.0.2, of these credentials at this time."""


def test_a_token_for_msk_is_what_the_signer_of_aws_makes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secretsecret")
    monkeypatch.setenv("AWS_SESSION_TOKEN", "to/ken+x=")
    monkeypatch.setattr(botocore.auth, "get_current_datetime", lambda: datetime(2026, 3, 1, 12))  # noqa: DTZ001
    security = "security: {protocol: SASL_SSL, mechanism: OAUTHBEARER, signer: aws-msk-iam}"
    found = credentials_of(settings_of(f"{MSK}, {security}").source("live-1"), {"AWS_REGION": "us-east-1"})
    token = found.current_token()
    address = urlsplit(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)).decode())
    query = dict(parse_qsl(address.query))
    assert address.netloc == "kafka.eu-west-1.amazonaws.com"
    assert (query["Action"], query["X-Amz-Expires"]) == ("kafka-cluster:Connect", "900")
    assert query["X-Amz-Signature"] == MSK_SIGNATURE
    assert "secretsecret" not in f"{address} {found}"


def test_the_region_of_msk_is_that_of_the_environment_if_no_broker_names_it() -> None:
    security = "security: {protocol: SASL_SSL, mechanism: OAUTHBEARER, signer: aws-msk-iam}"
    source = settings_of(f"bootstrap: 'kafka.internal:9098', {security}").source("live-1")
    assert credentials_of(source, {"AWS_DEFAULT_REGION": "us-east-1"}).aws_region == "us-east-1"
    with pytest.raises(ClusterDenied, match="set AWS_REGION"):
        credentials_of(source, {})


def test_security_is_as_kafkas_clients_spell_it() -> None:
    security = settings_of(OAUTH).source("live-1").security
    assert (security.protocol, security.mechanism) == (SecurityProtocol.SASL_SSL, SaslMechanism.OAUTHBEARER)
