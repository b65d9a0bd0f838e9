"""What the workers of `audit` do: count in every partition what the expectations are about."""
