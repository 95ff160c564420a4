// Interposes on the MPI functions that send a message to one rank, including persistent requests, and on those that
// initialise and finalise MPI. Each calls the next definition of its name, so that other preloaded tools see the call.
//
// Both names, MPI_ and PMPI_, are covered: MPICH's Fortran bindings (separate libraries, libmpichfort or libmpifort)
// call the C functions, but the bindings of mpi_f08 call PMPI_Init, PMPI_Start and others; and a profiling tool that is
// linked into the executable precedes this library and calls PMPI_ names. A call that passes through both names has no
// further effect the second time.
//
// Not covered, and sent under the threshold of the last covered send: collectives, partitioned sends, one-sided
// communication. Programs that start MPI by MPI_Session_init alone keep MPICH's defaults.
//
// Does not include mpi.h, for the reason given in shim.hpp.
#include <cstdint>

#include "preload/mpi/wrap.hpp"
#include "preload/mpich/shim.hpp"

using nearfield::tune::Handle;

namespace {
using Count = std::int64_t;  // MPI_Count
}  // namespace

#define SENDS(name, number)                                                                                         \
  NEARFIELD_EXPORT int name(const void* buffer, number count, Handle type, int destination, int tag, Handle comm) { \
    NEARFIELD_NEXT(name);                                                                                           \
    nearfield::tune::before_send(destination, comm);                                                                \
    return next(buffer, count, type, destination, tag, comm);                                                       \
  }

#define SENDS_WITH_REQUEST(name, number)                                                                          \
  NEARFIELD_EXPORT int name(const void* buffer, number count, Handle type, int destination, int tag, Handle comm, \
                            void* request) {                                                                      \
    NEARFIELD_NEXT(name);                                                                                         \
    nearfield::tune::before_send(destination, comm);                                                              \
    return next(buffer, count, type, destination, tag, comm, request);                                            \
  }

#define MAKES_PERSISTENT(name, number)                                                                            \
  NEARFIELD_EXPORT int name(const void* buffer, number count, Handle type, int destination, int tag, Handle comm, \
                            void* request) {                                                                      \
    NEARFIELD_NEXT(name);                                                                                         \
    const int result = next(buffer, count, type, destination, tag, comm, request);                                \
    if (result == 0) nearfield::tune::after_send_init(destination, comm, request);                                \
    return result;                                                                                                \
  }

// `last`: the address of the status, or of the request of the nonblocking function.
#define SENDS_AND_RECEIVES(name, number)                                                                            \
  NEARFIELD_EXPORT int name(const void* out, number n_out, Handle type_out, int destination, int tag_out, void* in, \
                            number n_in, Handle type_in, int source, int tag_in, Handle comm, void* last) {         \
    NEARFIELD_NEXT(name);                                                                                           \
    nearfield::tune::before_send(destination, comm);                                                                \
    return next(out, n_out, type_out, destination, tag_out, in, n_in, type_in, source, tag_in, comm, last);         \
  }

#define REPLACES(name, number)                                                                                 \
  NEARFIELD_EXPORT int name(void* buffer, number count, Handle type, int destination, int tag_out, int source, \
                            int tag_in, Handle comm, void* last) {                                             \
    NEARFIELD_NEXT(name);                                                                                      \
    nearfield::tune::before_send(destination, comm);                                                           \
    return next(buffer, count, type, destination, tag_out, source, tag_in, comm, last);                        \
  }

#define ALL_NAMES(macro, name) macro(name, int) macro(name##_c, Count) macro(P##name, int) macro(P##name##_c, Count)

ALL_NAMES(SENDS, MPI_Send)
ALL_NAMES(SENDS, MPI_Ssend)
ALL_NAMES(SENDS, MPI_Rsend)
ALL_NAMES(SENDS, MPI_Bsend)
ALL_NAMES(SENDS_WITH_REQUEST, MPI_Isend)
ALL_NAMES(SENDS_WITH_REQUEST, MPI_Issend)
ALL_NAMES(SENDS_WITH_REQUEST, MPI_Irsend)
ALL_NAMES(SENDS_WITH_REQUEST, MPI_Ibsend)
ALL_NAMES(MAKES_PERSISTENT, MPI_Send_init)
ALL_NAMES(MAKES_PERSISTENT, MPI_Ssend_init)
ALL_NAMES(MAKES_PERSISTENT, MPI_Rsend_init)
ALL_NAMES(MAKES_PERSISTENT, MPI_Bsend_init)
ALL_NAMES(SENDS_AND_RECEIVES, MPI_Sendrecv)
ALL_NAMES(SENDS_AND_RECEIVES, MPI_Isendrecv)
ALL_NAMES(REPLACES, MPI_Sendrecv_replace)
ALL_NAMES(REPLACES, MPI_Isendrecv_replace)

#define STARTS(name)                           \
  NEARFIELD_EXPORT int name(void* request) {   \
    NEARFIELD_NEXT(name);                      \
    nearfield::tune::before_start(request, 1); \
    return next(request);                      \
  }

// MPI_Startall may start its requests in any order, one after another, by the standard; so this function starts them in
// several calls, one per threshold. Only under MPICH, where a request is an int, does before_start() return less than
// `count`.
#define STARTS_ALL(name)                                         \
  NEARFIELD_EXPORT int name(int count, void* requests) {         \
    NEARFIELD_NEXT(name);                                        \
    auto* first = static_cast<int*>(requests);                   \
    int length = nearfield::tune::before_start(first, count);    \
    while (length < count) {                                     \
      if (const int result = next(length, first)) return result; \
      first += length;                                           \
      count -= length;                                           \
      length = nearfield::tune::before_start(first, count);      \
    }                                                            \
    return next(count, first);                                   \
  }

#define FREES(name)                                \
  NEARFIELD_EXPORT int name(void* request) {       \
    NEARFIELD_NEXT(name);                          \
    nearfield::tune::before_request_free(request); \
    return next(request);                          \
  }

#define BEGINS(name)                                   \
  NEARFIELD_EXPORT int name(int* argc, char*** argv) { \
    NEARFIELD_NEXT(name);                              \
    const int result = next(argc, argv);               \
    if (result == 0) nearfield::tune::after_init();    \
    return result;                                     \
  }

#define BEGINS_WITH_THREADS(name)                                                   \
  NEARFIELD_EXPORT int name(int* argc, char*** argv, int required, int* provided) { \
    NEARFIELD_NEXT(name);                                                           \
    const int result = next(argc, argv, required, provided);                        \
    if (result == 0) nearfield::tune::after_init();                                 \
    return result;                                                                  \
  }

#define ENDS(name)                      \
  NEARFIELD_EXPORT int name() {         \
    NEARFIELD_NEXT(name);               \
    nearfield::tune::before_finalize(); \
    return next();                      \
  }

#define BOTH_NAMES(macro, name) macro(name) macro(P##name)

BOTH_NAMES(STARTS, MPI_Start)
BOTH_NAMES(STARTS_ALL, MPI_Startall)
BOTH_NAMES(FREES, MPI_Request_free)
BOTH_NAMES(BEGINS, MPI_Init)
BOTH_NAMES(BEGINS_WITH_THREADS, MPI_Init_thread)
BOTH_NAMES(ENDS, MPI_Finalize)
