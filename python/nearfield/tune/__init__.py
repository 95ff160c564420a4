"""Finds rules (knobs, model, arena, search, tuning), and applies them to unmodified programs (recognise, apply)."""
