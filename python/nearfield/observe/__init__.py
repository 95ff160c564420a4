"""Observing programs: compiling them with hooks, running them with the profiling layer, and reading what they did."""
