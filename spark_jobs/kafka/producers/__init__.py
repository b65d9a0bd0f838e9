"""Producer state, and the rules by which a broker accepts or rejects a batch."""
