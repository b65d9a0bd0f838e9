"""`onceover tap`: a proxy beside a broker that writes produce requests as captures."""

import re
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path
from socket import gethostname
from typing import Annotated, Any

import typer

from spark_jobs.commands.address import BadAddress, open_address
from spark_jobs.commands.failure import reported_failures, survive_broken_connections
from spark_jobs.config.fields import parse_size
from spark_jobs.lake.file_store import FileStore
from spark_jobs.lake.object_store import ObjectStore
from spark_jobs.tap.capturing import CaptureSettings, OnFull
from spark_jobs.tap.objects import OnRefused
from spark_jobs.tap.process import Route, TapSettings, TlsFiles, run_tap
from spark_jobs.tap.proxy import SocketAddress

NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_.-]")
PEM: dict[str, Any] = {"exists": True, "dir_okay": False, "show_default": False}


def tap(
    listen: Annotated[
        list[str],
        typer.Option(metavar="HOST:PORT", help="Where clients, or other brokers, connect to. Repeatable."),
    ],
    broker: Annotated[
        list[str],
        typer.Option(
            metavar="HOST:PORT", help="The broker's listener behind it; one per `--listen`, in that order."
        ),
    ],
    root: Annotated[
        str, typer.Option(metavar="PATH|S3", help="The `root` of the capture: a path or s3://bucket/prefix.")
    ],
    *,
    advertise: Annotated[
        list[str] | None,
        typer.Option(
            metavar="HOST:PORT",
            help="The tap's address as clients reach it; one per `--listen`. The tap does not start if the "
            "broker's listener advertises another one.",
            show_default=False,
        ),
    ] = None,
    name: Annotated[
        str | None,
        typer.Option(
            help="In the names of objects; different for every tap.",
            show_default="by --advertise, or host and port",
        ),
    ] = None,
    spool: Annotated[
        Path | None,
        typer.Option(
            help="A local folder for the journals, on a disk that survives a restart.",
            show_default="beside a local root; needed for s3://",
        ),
    ] = None,
    spool_bytes: Annotated[
        str, typer.Option(help="Most bytes of journals that are not objects yet.")
    ] = "4GiB",
    on_full: Annotated[
        OnFull,
        typer.Option(
            help="If the spool is full or cannot be written: `block` lets clients wait, `pass` forwards "
            "requests without capturing them, and says so."
        ),
    ] = OnFull.BLOCK,
    refused: Annotated[
        OnRefused,
        typer.Option(
            help="Batches that the broker refuses: `aside` writes them beside the capture, `capture` into it."
        ),
    ] = OnRefused.ASIDE,
    rotate_bytes: Annotated[str, typer.Option(help="Objects are written after so many bytes,")] = "64MiB",
    rotate_seconds: Annotated[float, typer.Option(min=0.1, help="or so many seconds.")] = 60.0,
    memory_bytes: Annotated[str, typer.Option(help="Most bytes of requests held at a time.")] = "256MiB",
    statistics_seconds: Annotated[float, typer.Option(min=0.1, help="Between lines of statistics.")] = 60.0,
    tls_cert: Annotated[
        Path | None, typer.Option(help="Clients connect by TLS: the tap's certificate (PEM),", **PEM)
    ] = None,
    tls_key: Annotated[Path | None, typer.Option(help="and its key.", **PEM)] = None,
    tls_client_ca: Annotated[
        Path | None, typer.Option(help="Clients need a certificate of this CA.", **PEM)
    ] = None,
    broker_tls: Annotated[bool, typer.Option("--broker-tls", help="Connect to the broker by TLS.")] = False,
    broker_ca: Annotated[
        Path | None,
        typer.Option(help="The CA of the broker's certificate, if it is not one of the system's.", **PEM),
    ] = None,
    broker_cert: Annotated[
        Path | None, typer.Option(help="The tap's certificate for the broker,", **PEM)
    ] = None,
    broker_key: Annotated[Path | None, typer.Option(help="and its key.", **PEM)] = None,
    endpoint_url: Annotated[
        str | None, typer.Option(help="The S3 server, if it is not AWS.", show_default=False)
    ] = None,
) -> None:
    """Run a proxy between clients and a broker, and write what producers send as a source of kind `capture`.

    Clients connect to the tap: give the broker a listener whose advertised address is the tap's. Markers of
    transactions are captured if the inter-broker listener's address is a tap's, too: give a second --listen
    and --broker for it. Every byte passes unchanged, except that Produce is offered up to version 12. A
    produce request is in a journal on disk before it goes to the broker, and the broker's answer before it
    goes to the client. Journals become objects <root>/dt=<date>/<topic>-<partition>/<object>, with the
    answers beside them.

    SIGTERM ends it: answers under way are awaited, and everything is written. A tap that was killed continues
    with the journals that it left. SASL passes through; with TLS the tap ends it on both sides.

    Example: onceover tap --listen 0.0.0.0:9094 --broker 127.0.0.1:9095 --listen 0.0.0.0:9096
    --broker 127.0.0.1:9097 --root s3://raw/tap --spool /var/lib/onceover-tap --name broker-1
    """
    with reported_failures(when_interrupted="the next tap continues with the journals in the spool"):
        survive_broken_connections()
        store = open_address(root, endpoint_url)
        routes = tuple(_routes(listen, broker, advertise or []))
        address = advertise[0] if advertise else f"{gethostname()}-{routes[0].listen.port}"
        named = NOT_IN_NAMES.sub("-", name or address).strip("-")
        run_tap(
            TapSettings(
                routes=routes,
                capture=CaptureSettings(
                    store=store,
                    spool=_spool(spool, store, named),
                    name=named,
                    on_full=on_full,
                    on_refused=refused,
                    rotate_bytes=_size(rotate_bytes),
                    rotate_seconds=rotate_seconds,
                    spool_bytes=_size(spool_bytes),
                ),
                client_tls=TlsFiles(cert=tls_cert, key=tls_key, ca=tls_client_ca) if tls_cert else None,
                broker_tls=TlsFiles(cert=broker_cert, key=broker_key, ca=broker_ca) if broker_tls else None,
                memory_bytes=_size(memory_bytes),
                statistics_seconds=statistics_seconds,
            )
        )


def _routes(listen: list[str], broker: list[str], advertise: list[str]) -> Iterator[Route]:
    if len(listen) != len(broker) or (advertise and len(advertise) != len(listen)):
        raise BadAddress("give as many --broker as --listen, and as many --advertise or none, in their order")
    for here, behind, named in zip_longest(listen, broker, advertise):
        yield Route(
            listen=_address(here), broker=_address(behind), advertise=_address(named) if named else None
        )


def _address(text: str) -> SocketAddress:
    host, _, port = text.rpartition(":")
    if not host or not port.isdigit() or not 0 < int(port) < 2**16:
        raise BadAddress(f"{text}: expected HOST:PORT")
    return SocketAddress(host=host.strip("[]"), port=int(port))


def _size(text: str) -> int:
    try:
        size: int = parse_size(text)
    except ValueError:
        raise BadAddress(f"{text}: expected a number of bytes, such as 64MiB or 4GiB") from None
    return size


def _spool(spool: Path | None, store: ObjectStore, name: str) -> Path:
    if spool is not None:
        return spool.absolute()
    if not isinstance(store, FileStore):
        raise BadAddress("a tap that writes to s3:// needs a local folder for its journals: give --spool")
    root = Path(store.url)
    return root.parent / f".{root.name}.tap-{name}"
