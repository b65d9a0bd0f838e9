"""Which files of a lake may be shown in a browser, and as what."""

from spark_jobs.storage.keys import key_problem

SERVED = "dashboard/"
"""The dashboard with its Data Docs; no other file of the lake is served."""
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
    return path.startswith(SERVED) and not key_problem(path)


def content_type(path: str) -> str:
    """What the file is, by its ending alone: a browser shall not guess."""
    return CONTENT_TYPES.get(path.rpartition(".")[2], UNKNOWN)
