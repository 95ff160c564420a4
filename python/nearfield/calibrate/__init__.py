"""Calibrates the description of the machine at hand: measures it by micro-benchmarks (src/calibrate), fits the values
of a described machine to them, and simulates the same micro-benchmarks on the result.

`probing` measures, `places` sorts by where the cores of a virtual machine are, `fitting` makes the description,
`messages` fits the costs of MPI calls to a profile, and `simulated` repeats the measurements in the simulator."""
