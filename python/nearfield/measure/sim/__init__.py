"""The sim backend: simulates scenarios on a described machine. Results are deterministic; a case is repeated only to
warm the simulated caches."""
