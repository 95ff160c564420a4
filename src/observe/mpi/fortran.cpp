// Fortran's names of the functions that are recorded. In all MPIs, Fortran's bindings are libraries of their own, which
// call the C functions under MPI_ or PMPI_ names, and so the wrappers. These here only note the place in the program
// from which the call came, where the wrappers would see a place in that library.
//
// `mpi_send_` is called with `use mpi` and with mpif.h, where compilers append one underscore; mpi_f08 calls
// `mpi_send_f08_` in Open MPI, and in MPICH and its relatives `mpi_send_f08ts_` if there is a buffer among the
// arguments. All arguments are addresses, or lengths of texts: they are passed on as they are, up to 15, some more than
// there are.
#include <cstdint>

#include "base/mpi_library.hpp"
#include "observe/mpi/call.hpp"

namespace {

using Word = std::intptr_t;

class From {
 public:
  explicit From(const void* site) : is_outermost_(!nearfield::observe::detail::fortran_site) {
    if (is_outermost_) nearfield::observe::detail::fortran_site = site;
  }
  ~From() {
    if (is_outermost_) nearfield::observe::detail::fortran_site = nullptr;
  }
  From(const From&) = delete;

 private:
  const bool is_outermost_;
};

}  // namespace

#define NOTES(name)                                                                                                   \
  extern "C" __attribute__((visibility("default"))) void name(Word a, Word b, Word c, Word d, Word e, Word f, Word g, \
                                                              Word h, Word i, Word j, Word k, Word l, Word m, Word n, \
                                                              Word o) {                                               \
    static const auto own = reinterpret_cast<decltype(&name)>(nearfield::next_or_abort(#name, "p" #name));            \
    const From from(__builtin_return_address(0));                                                                     \
    own(a, b, c, d, e, f, g, h, i, j, k, l, m, n, o);                                                                 \
  }

#define PLAIN(name) NOTES(mpi_##name##_) NOTES(mpi_##name##_f08_)
#define WITH_BUFFER(name) PLAIN(name) NOTES(mpi_##name##_f08ts_)
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
