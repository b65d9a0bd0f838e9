"""The cluster as processes on loopback: `make test-cluster`."""
