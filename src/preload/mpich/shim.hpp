// Runs before and after the intercepted calls. Does not include mpi.h: the interception (intercept.cpp) must pass on
// the handles of any MPI unchanged, ints or pointers, because it may be loaded into programs of any.
#pragma once

#include <cstdint>

namespace nearfield::tune {

// A handle in a register or stack slot. For MPICH's int the upper half is undefined.
using Handle = std::intptr_t;

namespace detail {
// True from the end of MPI_Init to MPI_Finalize, if there is a rule for a peer of this rank and the shim is not
// disabled.
extern bool active;

void apply_threshold_for(int destination, Handle comm);
void register_persistent(int destination, Handle comm, const void* request);
void unregister_persistent(const void* request);
int start_run(const void* requests, int count);
}  // namespace detail

// Called after MPI_Init or MPI_Init_thread has succeeded, collectively. Sets the shim up, or disables it with a
// one-line notice. A second call has no effect.
void after_init();

// Restores MPICH's own thresholds.
void before_finalize();

// Called before every function that sends one message.
inline void before_send(int destination, Handle comm) {
  if (detail::active) detail::apply_threshold_for(destination, comm);
}

// Called after MPI_Send_init and similar functions.
inline void after_send_init(int destination, Handle comm, const void* request) {
  if (detail::active) detail::register_persistent(destination, comm, request);
}

inline void before_request_free(const void* request) {
  if (detail::active) detail::unregister_persistent(request);
}

// Applies the threshold for as many of the requests as can be started together; returns their number.
inline int before_start(const void* requests, int count) {
  return detail::active ? detail::start_run(requests, count) : count;
}

}  // namespace nearfield::tune
