"""Why a batch was accepted or rejected, from the tables of the runs."""
