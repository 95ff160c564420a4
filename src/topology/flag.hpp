// Measures how far apart two PUs are by a flag between them. On a virtual machine, whose CPUs may be any of the host's
// and move among them, that is the only true distance.
#pragma once

namespace nearfield::topology {

/// Returns half of the fastest of many round trips of a flag between threads bound to the two PUs, in ns; takes some
/// milliseconds. 0 if they may not be used, or if other programs never let both run at once. It is what the engine's
/// start line (src/probe/start_line.cpp) measures between two ranks.
double flag_ns(int pu_a, int pu_b);

}  // namespace nearfield::topology
