"""`resolve`: one outcome for every transaction."""
