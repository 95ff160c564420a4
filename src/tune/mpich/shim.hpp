// Acts around the intercepted calls. No mpi.h here: the interception itself (intercept.cpp) must
// pass the handles of any MPI on unharmed, ints or pointers, because it may be loaded into programs of any.
#pragma once

#include <cstdint>

namespace nearfield::tune {

// A handle as a register or a stack slot holds it. For MPICH's int the upper half means nothing.
using Handle = std::intptr_t;

namespace detail {
// True from the end of MPI_Init to MPI_Finalize, if a rule is for any peer of this rank and nothing speaks against it.
extern bool active;

void set_for(int destination, Handle comm);
void remember(int destination, Handle comm, const void* request);
void forget(const void* request);
int start_run(const void* requests, int count);
}  // namespace detail

// Is called after MPI_Init or MPI_Init_thread has succeeded, collectively. Gets ready, or steps aside with one line. A
// second call does nothing.
void after_init();

// Gives MPICH its own thresholds back.
void before_finalize();

// Is called before any function that sends one message.
inline void before_send(int destination, Handle comm) {
  if (detail::active) detail::set_for(destination, comm);
}

// Is called after MPI_Send_init and its like.
inline void after_send_init(int destination, Handle comm, const void* request) {
  if (detail::active) detail::remember(destination, comm, request);
}

inline void before_request_free(const void* request) {
  if (detail::active) detail::forget(request);
}

// Makes ready for as many of the requests as can be started together; returns how many.
inline int before_start(const void* requests, int count) {
  return detail::active ? detail::start_run(requests, count) : count;
}

}  // namespace nearfield::tune
