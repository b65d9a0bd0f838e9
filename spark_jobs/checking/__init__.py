"""What `onceover check` looks at: each part of a lake yields findings, nothing is changed."""
