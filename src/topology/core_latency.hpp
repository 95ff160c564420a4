// Measures the core-to-core latency of two PUs. On a virtual machine, whose CPUs may be any of the host's and migrate
// among them, that is the only reliable distance.
#pragma once

namespace nearfield::topology {

/// Returns the core-to-core latency in ns: half the shortest round trip of a flag between threads bound to the two
/// PUs, of many batches of eight; takes some milliseconds. Returns 0 if the PUs may not be used, or if other programs never let both run at
/// the same time. The engine's synchronised start (src/probe/synchronized_start.cpp) measures the same between two
/// ranks.
double c2c_latency_ns(int pu_a, int pu_b);

}  // namespace nearfield::topology
