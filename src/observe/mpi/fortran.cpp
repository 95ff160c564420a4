// Fortran names of the recorded functions.
#include "base/fortran_names.hpp"
#include "observe/mpi/call.hpp"

#define PLAIN(name) NEARFIELD_NOTES_PLAIN(name, nearfield::observe::detail::fortran_site)
#define WITH_BUFFER(name) NEARFIELD_NOTES_WITH_BUFFER(name, nearfield::observe::detail::fortran_site)
#define BOTH_PLAIN(name) PLAIN(name) PLAIN(i##name)
#define BOTH(name) WITH_BUFFER(name) WITH_BUFFER(i##name)

// clang-format off
PLAIN(init) PLAIN(init_thread) PLAIN(finalize) PLAIN(abort) PLAIN(pcontrol)

BOTH(send) BOTH(ssend) BOTH(bsend) BOTH(rsend) BOTH(recv) BOTH(mrecv)
WITH_BUFFER(sendrecv) WITH_BUFFER(sendrecv_replace)
WITH_BUFFER(send_init) WITH_BUFFER(ssend_init) WITH_BUFFER(bsend_init) WITH_BUFFER(rsend_init) WITH_BUFFER(recv_init)
PLAIN(start) PLAIN(startall) PLAIN(request_free) PLAIN(request_get_status) PLAIN(cancel)
BOTH_PLAIN(probe) PLAIN(mprobe) PLAIN(improbe)
PLAIN(wait) PLAIN(waitall) PLAIN(waitany) PLAIN(waitsome) PLAIN(test) PLAIN(testall) PLAIN(testany) PLAIN(testsome)

BOTH_PLAIN(barrier)
BOTH(bcast) BOTH(reduce) BOTH(allreduce) BOTH(scan) BOTH(exscan) BOTH(reduce_scatter) BOTH(reduce_scatter_block)
BOTH(gather) BOTH(gatherv) BOTH(scatter) BOTH(scatterv) BOTH(allgather) BOTH(allgatherv)
BOTH(alltoall) BOTH(alltoallv) BOTH(alltoallw)
BOTH(neighbor_allgather) BOTH(neighbor_allgatherv)
BOTH(neighbor_alltoall) BOTH(neighbor_alltoallv) BOTH(neighbor_alltoallw)

PLAIN(comm_dup) PLAIN(comm_dup_with_info) PLAIN(comm_idup) PLAIN(comm_idup_with_info)
PLAIN(comm_create) PLAIN(comm_create_group) PLAIN(comm_split) PLAIN(comm_split_type)
PLAIN(cart_create) PLAIN(cart_sub) PLAIN(graph_create) PLAIN(dist_graph_create) PLAIN(dist_graph_create_adjacent)
PLAIN(intercomm_create) PLAIN(intercomm_merge) PLAIN(comm_free) PLAIN(comm_disconnect) PLAIN(comm_set_name)
    // clang-format on
