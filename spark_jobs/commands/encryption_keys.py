"""The option `--encryption-key` of commands that read tiered storage."""

from collections.abc import Iterable
from typing import Annotated

import typer

from spark_jobs.kafka.formats.tier_files import KEY_REFERENCE

EncryptionKeys = Annotated[
    list[str] | None,
    typer.Option(
        metavar="ID=REFERENCE",
        help="A private key for encrypted tiered storage: key-1=file:PATH or key-1=env:VARIABLE.",
    ),
]


def key_references(options: Iterable[str] | None) -> dict[str, str]:
    """Where each key is, by its id."""
    return dict(map(_key, options or ()))


def _key(option: str) -> tuple[str, str]:
    key_id, separator, reference = option.partition("=")
    if not separator or KEY_REFERENCE.fullmatch(reference) is None:
        raise typer.BadParameter("expected ID=file:PATH or ID=env:VARIABLE", param_hint="--encryption-key")
    return key_id, reference
