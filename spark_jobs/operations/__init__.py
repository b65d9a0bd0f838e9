"""Operations on a lake beside its runs: backfill, replay, rollback, expire, check, repair, relocate."""
