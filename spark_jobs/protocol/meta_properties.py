"""`meta.properties` of a log directory: which broker and cluster it belongs to (facts §1.10)."""

CLUSTER_ID = "cluster.id"
_COMMENTS = ("#", "!")


def read_properties(data: bytes | memoryview) -> dict[str, str]:
    """Lines of key=value as Java's Properties writes them; a line without '=' is a key without a value."""
    lines = (line.strip() for line in bytes(data).decode(errors="replace").splitlines())
    pairs = (line.partition("=") for line in lines if line and not line.startswith(_COMMENTS))
    return {key.strip(): value.strip().replace("\\", "") for key, _, value in pairs}


def read_cluster_id(data: bytes | memoryview) -> str:
    """The cluster's id; empty where the file has none, as those of the oldest brokers."""
    return read_properties(data).get(CLUSTER_ID, "")
