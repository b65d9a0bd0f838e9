"""What the workers of `resolve` do: fold the coordinators' logs, join them with markers, decide, carry on."""
