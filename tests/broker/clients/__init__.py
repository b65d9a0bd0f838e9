"""Real clients, each running until it is stopped, each with a journal of its acknowledged writes."""
