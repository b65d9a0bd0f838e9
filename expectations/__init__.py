"""What must hold of a night before it is published: suites, own expectations, and the gate."""
