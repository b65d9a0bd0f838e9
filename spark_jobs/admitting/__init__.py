"""What a worker of `admit` does: fold a partition's index rows into verdicts, state and a plan of its log."""
