"""The cluster: what docker-compose.yml starts in containers and `make test-cluster` as processes."""
