"""Writes source text: a region in a new order, inlined callees, run-time checks."""
