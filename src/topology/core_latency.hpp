// Measures the core-to-core latency between two PUs (hardware threads). It is the only reliable measure of distance in
// a virtual machine, whose CPUs may run on any core of the host and migrate.
#pragma once

namespace nearfield::topology {

/// Returns the core-to-core latency in ns: half the minimum, over many batches, of the mean round trip of eight flag
/// ping-pongs between threads that are bound to the two PUs. Takes some milliseconds. Returns 0 if a thread cannot be
/// bound to its PU, or if other programs prevent both threads from running at the same time. The synchronised start of
/// the measuring engine (src/probe/synchronized_start.cpp) measures the same between two ranks.
double measure_c2c_latency_ns(int pu_a, int pu_b);

}  // namespace nearfield::topology
