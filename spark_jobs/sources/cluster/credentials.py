"""Names, passwords and tokens for a cluster: from the environment of the process that connects.

Tasks read their own environment, so no secret is in a task's arguments, a file of the lake or a message. An
Airflow task gives the driver the logins of Airflow connections as environment variables.
"""

import base64
import json
import os
import re
import shlex
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import unquote, urlsplit

from spark_jobs.config.sources import SaslMechanism, Source, TokenSigner
from spark_jobs.sources.cluster.cut import ClusterDenied

COMMAND_SECONDS = 60
AWS_REGIONS = ("AWS_REGION", "AWS_DEFAULT_REGION")
AWS_HOST = re.compile(r"\.kafka(?:-serverless)?\.([a-z0-9-]+)\.amazonaws\.com(?:\.cn)?:\d+$")
AWS_SERVICE, AWS_ACTION, AWS_TOKEN_SECONDS = "kafka-cluster", "kafka-cluster:Connect", 900
"""What a broker of MSK expects to be signed, and the longest time that it accepts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Credentials:
    """For PLAIN and SCRAM a name and a password, for OAUTHBEARER a token or who makes one."""

    username: str = ""
    password: str = field(default="", repr=False)
    token: str = field(default="", repr=False)
    token_command: str = field(default="", repr=False)
    aws_region: str = ""
    source: str = ""

    def current_token(self) -> str:
        """The token; one that is made is made each time, since tokens expire."""
        if self.aws_region:
            return aws_token(self.source, self.aws_region)
        if not self.token_command:
            return self.token
        command = shlex.split(self.token_command)
        try:
            done = subprocess.run(  # noqa: S603 - the administrator's own command
                command, check=True, capture_output=True, timeout=COMMAND_SECONDS
            )
        except (OSError, subprocess.SubprocessError) as error:
            code = getattr(error, "returncode", None)
            how = type(error).__name__ if code is None else f"exit code {code}"
            raise ClusterDenied(
                f"source {self.source}: the token command {command[0]} failed: {how}"
            ) from None
        return done.stdout.decode().strip()


def prefix_of(source: Source) -> str:
    """The beginning of the names of the source's variables: `ONCEOVER_LIVE` for a source called live."""
    return source.security.environment or f"ONCEOVER_{source.name}".upper().replace("-", "_")


def credentials_of(source: Source, environment: Mapping[str, str] = os.environ) -> Credentials:
    """The credentials of the source; raises `ClusterDenied` with the names of missing variables."""
    security = source.security
    if not security.is_sasl:
        return Credentials()
    if security.signer is TokenSigner.AWS_MSK_IAM:
        return Credentials(aws_region=_aws_region(source, environment), source=source.name)
    if security.connection is not None:
        return _of_connection(source, environment)
    prefix = prefix_of(source)
    found = Credentials(
        username=environment.get(f"{prefix}_USERNAME", ""),
        password=environment.get(f"{prefix}_PASSWORD", ""),
        token=environment.get(f"{prefix}_TOKEN", ""),
        token_command=environment.get(f"{prefix}_TOKEN_COMMAND", ""),
        source=source.name,
    )
    where = "in the environment of the driver and of Spark's executors"
    return _checked(
        source, found, f"{prefix}_USERNAME and {prefix}_PASSWORD {where}", f"{prefix}_TOKEN_COMMAND {where}"
    )


def _aws_region(source: Source, environment: Mapping[str, str]) -> str:
    """The region in a broker's name, else that of the environment."""
    named = (found[1] for each in source.bootstrap if (found := AWS_HOST.search(each)))
    region = next(named, "") or next(filter(None, map(environment.get, AWS_REGIONS)), "")
    if not region:
        raise ClusterDenied(f"source {source.name}: set AWS_REGION to the region of the MSK cluster")
    return region


def aws_token(source: str, region: str) -> str:
    """A signed request to connect, as the brokers of MSK expect it; not sent anywhere else."""
    from botocore.auth import SigV4QueryAuth  # noqa: PLC0415 - takes long, few clusters need it
    from botocore.awsrequest import AWSRequest  # noqa: PLC0415
    from botocore.session import Session  # noqa: PLC0415

    credentials = Session().get_credentials()
    if credentials is None:
        raise ClusterDenied(f"source {source}: this process has no AWS credentials")
    endpoint = f"https://kafka.{region}.amazonaws.com/"
    request = AWSRequest(method="GET", url=endpoint, params={"Action": AWS_ACTION})
    SigV4QueryAuth(credentials, AWS_SERVICE, region, expires=AWS_TOKEN_SECONDS).add_auth(request)
    return base64.urlsafe_b64encode(f"{request.url}&User-Agent=onceover".encode()).decode().rstrip("=")


def _of_connection(source: Source, environment: Mapping[str, str]) -> Credentials:
    """The login and password of an Airflow connection, which is a URI or JSON in a variable."""
    name = source.security.connection_variable
    text = environment.get(name, "").strip()
    if text.startswith("{"):
        try:
            fields = json.loads(text)
        except ValueError:
            raise ClusterDenied(f"source {source.name}: {name} is not readable as JSON") from None
        login, password = fields.get("login") or "", fields.get("password") or ""
    else:
        try:
            address = urlsplit(text)
        except ValueError:  # its message may have the password
            raise ClusterDenied(
                f"source {source.name}: {name} is not readable as a URI; quote special characters with %"
            ) from None
        login, password = unquote(address.username or ""), unquote(address.password or "")
    is_token = source.security.mechanism is SaslMechanism.OAUTHBEARER
    found = Credentials(username=login, password=password, token=password if is_token else "")
    names = (
        f"the Airflow connection {source.security.connection}, or outside of Airflow {name} "
        "in the environment of the driver,"
    )
    return _checked(
        source, found, f"{names} with a login and a password", f"{names} with the token as password"
    )


def _checked(source: Source, found: Credentials, names: str, token_name: str) -> Credentials:
    is_token = source.security.mechanism is SaslMechanism.OAUTHBEARER
    is_whole = (
        bool(found.token or found.token_command) if is_token else bool(found.username and found.password)
    )
    if is_whole:
        return found
    raise ClusterDenied(
        f"source {source.name}: no credentials for {source.security.mechanism}. Set "
        f"{token_name if is_token else names}"
    )
