"""Why a batch was taken or refused, told from the tables of the nights."""
