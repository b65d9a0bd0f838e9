"""The nine steps, one module each; they never import one another, they meet in tables."""
