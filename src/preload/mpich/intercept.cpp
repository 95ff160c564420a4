// Interposes on the MPI functions that send a message to one rank, including persistent requests, and on those that
// initialise and finalise MPI. Each wrapper calls the next definition of its name, so that other preloaded tools see
// the call.
//
// Both names, MPI_ and PMPI_, are covered: MPICH's Fortran bindings (separate libraries, libmpichfort or libmpifort)
// call the C functions, but the bindings of mpi_f08 call PMPI_Init, PMPI_Start and others; and a profiling tool that is
// linked into the executable precedes this library and calls PMPI_ names. A call that passes through both names has no
// further effect the second time.
//
// Collectives, partitioned sends and one-sided communication are not covered: they use the threshold of the last
// covered send. Programs that start MPI by MPI_Session_init alone keep MPICH's defaults.
//
// Does not include mpi.h, for the reason given in shim.hpp.
#include <cstdint>

#include "preload/mpi/wrap.hpp"
#include "preload/mpich/shim.hpp"

using nearfield::tune::Handle;

namespace {
using Count = std::int64_t;  // MPI_Count
}  // namespace

#define WRAP_SEND(name, CountType)                                                                                     \
  NEARFIELD_EXPORT int name(const void* buffer, CountType count, Handle type, int destination, int tag, Handle comm) { \
    NEARFIELD_NEXT(name);                                                                                              \
    nearfield::tune::before_send(destination, comm);                                                                   \
    return next(buffer, count, type, destination, tag, comm);                                                          \
  }

#define WRAP_ISEND(name, CountType)                                                                                  \
  NEARFIELD_EXPORT int name(const void* buffer, CountType count, Handle type, int destination, int tag, Handle comm, \
                            void* request) {                                                                         \
    NEARFIELD_NEXT(name);                                                                                            \
    nearfield::tune::before_send(destination, comm);                                                                 \
    return next(buffer, count, type, destination, tag, comm, request);                                               \
  }

#define WRAP_SEND_INIT(name, CountType)                                                                              \
  NEARFIELD_EXPORT int name(const void* buffer, CountType count, Handle type, int destination, int tag, Handle comm, \
                            void* request) {                                                                         \
    NEARFIELD_NEXT(name);                                                                                            \
    const int result = next(buffer, count, type, destination, tag, comm, request);                                   \
    if (result == 0) nearfield::tune::after_send_init(destination, comm, request);                                   \
    return result;                                                                                                   \
  }

// `status_or_request`: the address of the status, or of the request of the nonblocking function.
#define WRAP_SENDRECV(name, CountType)                                                                              \
  NEARFIELD_EXPORT int name(const void* out, CountType send_count, Handle type_out, int destination, int tag_out,   \
                            void* in, CountType receive_count, Handle type_in, int source, int tag_in, Handle comm, \
                            void* status_or_request) {                                                              \
    NEARFIELD_NEXT(name);                                                                                           \
    nearfield::tune::before_send(destination, comm);                                                                \
    return next(out, send_count, type_out, destination, tag_out, in, receive_count, type_in, source, tag_in, comm,  \
                status_or_request);                                                                                 \
  }

#define WRAP_SENDRECV_REPLACE(name, CountType)                                                                    \
  NEARFIELD_EXPORT int name(void* buffer, CountType count, Handle type, int destination, int tag_out, int source, \
                            int tag_in, Handle comm, void* status_or_request) {                                   \
    NEARFIELD_NEXT(name);                                                                                         \
    nearfield::tune::before_send(destination, comm);                                                              \
    return next(buffer, count, type, destination, tag_out, source, tag_in, comm, status_or_request);              \
  }

#define WRAP_ALL_NAMES(macro, name) \
  macro(name, int) macro(name##_c, Count) macro(P##name, int) macro(P##name##_c, Count)

WRAP_ALL_NAMES(WRAP_SEND, MPI_Send)
WRAP_ALL_NAMES(WRAP_SEND, MPI_Ssend)
WRAP_ALL_NAMES(WRAP_SEND, MPI_Rsend)
WRAP_ALL_NAMES(WRAP_SEND, MPI_Bsend)
WRAP_ALL_NAMES(WRAP_ISEND, MPI_Isend)
WRAP_ALL_NAMES(WRAP_ISEND, MPI_Issend)
WRAP_ALL_NAMES(WRAP_ISEND, MPI_Irsend)
WRAP_ALL_NAMES(WRAP_ISEND, MPI_Ibsend)
WRAP_ALL_NAMES(WRAP_SEND_INIT, MPI_Send_init)
WRAP_ALL_NAMES(WRAP_SEND_INIT, MPI_Ssend_init)
WRAP_ALL_NAMES(WRAP_SEND_INIT, MPI_Rsend_init)
WRAP_ALL_NAMES(WRAP_SEND_INIT, MPI_Bsend_init)
WRAP_ALL_NAMES(WRAP_SENDRECV, MPI_Sendrecv)
WRAP_ALL_NAMES(WRAP_SENDRECV, MPI_Isendrecv)
WRAP_ALL_NAMES(WRAP_SENDRECV_REPLACE, MPI_Sendrecv_replace)
WRAP_ALL_NAMES(WRAP_SENDRECV_REPLACE, MPI_Isendrecv_replace)

#define WRAP_START(name)                       \
  NEARFIELD_EXPORT int name(void* request) {   \
    NEARFIELD_NEXT(name);                      \
    nearfield::tune::before_start(request, 1); \
    return next(request);                      \
  }

// The MPI standard allows MPI_Startall to start its requests in any order, one after another; so this function starts
// them in several calls, one per threshold. before_start() returns less than `count` only under MPICH, where a request
// is an int.
#define WRAP_STARTALL(name)                                      \
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

#define WRAP_REQUEST_FREE(name)                    \
  NEARFIELD_EXPORT int name(void* request) {       \
    NEARFIELD_NEXT(name);                          \
    nearfield::tune::before_request_free(request); \
    return next(request);                          \
  }

#define WRAP_INIT(name)                                \
  NEARFIELD_EXPORT int name(int* argc, char*** argv) { \
    NEARFIELD_NEXT(name);                              \
    const int result = next(argc, argv);               \
    if (result == 0) nearfield::tune::after_init();    \
    return result;                                     \
  }

#define WRAP_INIT_THREAD(name)                                                      \
  NEARFIELD_EXPORT int name(int* argc, char*** argv, int required, int* provided) { \
    NEARFIELD_NEXT(name);                                                           \
    const int result = next(argc, argv, required, provided);                        \
    if (result == 0) nearfield::tune::after_init();                                 \
    return result;                                                                  \
  }

#define WRAP_FINALIZE(name)             \
  NEARFIELD_EXPORT int name() {         \
    NEARFIELD_NEXT(name);               \
    nearfield::tune::before_finalize(); \
    return next();                      \
  }

#define WRAP_BOTH_NAMES(macro, name) macro(name) macro(P##name)

WRAP_BOTH_NAMES(WRAP_START, MPI_Start)
WRAP_BOTH_NAMES(WRAP_STARTALL, MPI_Startall)
WRAP_BOTH_NAMES(WRAP_REQUEST_FREE, MPI_Request_free)
WRAP_BOTH_NAMES(WRAP_INIT, MPI_Init)
WRAP_BOTH_NAMES(WRAP_INIT_THREAD, MPI_Init_thread)
WRAP_BOTH_NAMES(WRAP_FINALIZE, MPI_Finalize)
