"""Observes programs: compiles them with hooks, runs them with the profiling layer, and reads the results."""
