"""The sim backend: scenarios on a described machine. Results are deterministic; cases are repeated only to warm their
caches."""
