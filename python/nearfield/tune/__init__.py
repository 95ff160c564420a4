"""Finding rules (knobs, model, arena, search, tuning), and applying them to unmodified programs (recognise, apply)."""
