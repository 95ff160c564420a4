// The form of a wrapper of an MPI function:
//
//   DEFINE_WRAPPER(MPI_Thing, (int a, MPI_Comm b), (a, b)) {
//     const int result = PMPI(MPI_Thing)(a, b);
//     if (call.succeeded(result)) record_event(...);
//     return result;
//   }
//
// The body that follows DEFINE_WRAPPER runs for recorded calls, in which `call` is the Call object. Other calls go
// directly to the MPI library.
#pragma once

#include "preload/mpi/handles.hpp"
#include "preload/mpi/wrap.hpp"
#include "preload/observe/mpi/call.hpp"

#define DEFINE_WRAPPER(name, parameters, arguments)                                       \
  namespace {                                                                             \
  struct name##_recorded {                                                                \
    const ::nearfield::observe::Call& call;                                               \
    int operator() parameters const;                                                      \
  };                                                                                      \
  }                                                                                       \
  NEARFIELD_EXPORT int name parameters {                                                  \
    static ::nearfield::observe::FunctionName mpi_name{#name};                            \
    const ::nearfield::observe::Call wrapper_call(mpi_name, __builtin_return_address(0)); \
    if (!wrapper_call.is_recorded()) return PMPI(name) arguments;                         \
    return name##_recorded{wrapper_call} arguments;                                       \
  }                                                                                       \
  NEARFIELD_EXPORT_PMPI(name)                                                             \
  int name##_recorded::operator() parameters const

// A list of parameters without its parentheses.
#define UNPARENTHESIZED(...) __VA_ARGS__

namespace nearfield::observe {

// Returns an MPI handle, which is an int or a pointer, as a key for tables.
template <class Handle>
std::uint64_t key_of_handle(Handle handle) {
  if constexpr (std::is_pointer_v<Handle>)
    return reinterpret_cast<std::uintptr_t>(handle);
  else
    return static_cast<std::uint64_t>(static_cast<std::uint32_t>(handle));
}

}  // namespace nearfield::observe
