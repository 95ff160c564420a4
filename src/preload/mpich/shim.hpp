// The actions of the interception (intercept.cpp) before and after MPI calls. Does not include mpi.h: this library may
// be loaded into programs of any MPI, so the interception must pass on handles of any MPI unchanged, ints or pointers.
#pragma once

#include <cstdint>

namespace nearfield::tune {

// An MPI handle in a register or stack slot. For MPICH, whose handles are ints, the upper half is undefined.
using Handle = std::intptr_t;

namespace detail {
// True from the end of MPI_Init to MPI_Finalize, if there is a rule for a peer of this rank and the shim is not
// disabled.
extern bool is_shim_active;

void apply_threshold_for(int destination, Handle comm);
void record_persistent_send(int destination, Handle comm, const void* request);
void remove_persistent_send(const void* request);
int apply_threshold_to_run(const void* requests, int count);
}  // namespace detail

// Called after MPI_Init or MPI_Init_thread has succeeded. Sets up the shim, or disables it; prints a one-line notice if
// the rules, the MPI library or its thread level is the reason. Collective. A second call has no effect.
void after_init();

// Restores MPICH's own thresholds.
void before_finalize();

// Called before every MPI function that sends one message: sets MPICH's threshold for the message.
inline void before_send(int destination, Handle comm) {
  if (detail::is_shim_active) detail::apply_threshold_for(destination, comm);
}

// Called after MPI_Send_init and similar functions: records the threshold of the new request.
inline void after_send_init(int destination, Handle comm, const void* request) {
  if (detail::is_shim_active) detail::record_persistent_send(destination, comm, request);
}

inline void before_request_free(const void* request) {
  if (detail::is_shim_active) detail::remove_persistent_send(request);
}

// Called before persistent requests start. Returns how many of the requests, from the first on, can start under the
// same threshold, and sets MPICH's threshold for them.
inline int before_start(const void* requests, int count) {
  return detail::is_shim_active ? detail::apply_threshold_to_run(requests, count) : count;
}

}  // namespace nearfield::tune
