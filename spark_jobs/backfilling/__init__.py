"""What a backfill is asked, which inputs its days have, and which days would change and why."""
