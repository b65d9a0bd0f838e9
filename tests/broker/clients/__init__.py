"""Real clients, each at work until it is told to stop, each with a journal of what it was promised."""
