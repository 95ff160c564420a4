// The buffered mode of the T3E in paper S3 (papers/S3/README.md): messages of any size pass through internal buffers of
// their size, which the cores read and write through their caches (element by element if the data is strided). Buffers
// that do not fit into the L2 cause memory accesses.
#include "sim/mpi/protocols/staged.hpp"

namespace nearfield::sim {

const ProtocolSpec buffered_protocol{"buffered", "through internal buffers of any size, by cached accesses (T3E)",
                                     false, make_implementation<Protocol, StagedProtocol>};

}  // namespace nearfield::sim
