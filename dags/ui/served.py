"""Which files of a lake may be shown in a browser, and as what."""

import re

from spark_jobs.storage.keys import key_problem

SERVED = re.compile(r"dashboard/.+|runs/[^/]+/audit/docs/.+")
"""The dashboard, and the Data Docs of every run; no other file of a lake is anybody's business."""
CONTENT_TYPES = {
    "css": "text/css; charset=utf-8",
    "html": "text/html; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "json": "application/json",
    "png": "image/png",
    "svg": "image/svg+xml",
}
UNKNOWN = "application/octet-stream"


def is_served(path: str) -> bool:
    """Whether `path` is the key of a file to show; no key can climb out of its folder."""
    return not key_problem(path) and SERVED.fullmatch(path) is not None


def content_type(path: str) -> str:
    """What the file is, by its ending alone: a browser shall not guess."""
    return CONTENT_TYPES.get(path.rpartition(".")[2], UNKNOWN)
