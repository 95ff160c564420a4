"""Calibrates the description of the host: runs micro-benchmarks on the host (src/calibrate), fits the values of a
described machine to their results, and runs the same micro-benchmarks on the fitted machine in the simulator.

The module `probing` measures on one core; `places` measures pairs of cores and groups the samples by core-to-core
latency; `fitting` derives the machine description; `messages` fits the costs of MPI calls to a profile; `simulated`
runs the micro-benchmarks in the simulator; and `repeating` compares their simulated with their measured times."""
