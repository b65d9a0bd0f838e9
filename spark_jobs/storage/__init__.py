"""Where bytes live: object stores, the run folder, the state chain, the ledger."""
