// Determines the category, place, number and size of the messages of an MPI call from the call's arguments and the
// positions of the arguments. Arguments are passed as words: integers and pointers.
#pragma once

#include "preload/forecast/record.hpp"
#include "preload/forecast/shape.hpp"

namespace nearfield::forecast {

using Word = std::intptr_t;

// Called before the MPI library's function: determines what the call will overwrite, such as the requests that it
// completes. If the program ignores the status and the size of a receive depends on the status, changes the argument to
// request it.
struct CallObservation {
  CallDescription did;
  bool sends = false;
  std::uint64_t sent_to_node = 0, sent_to_others = 0;  // bytes that the call begins to send
  alignas(16) unsigned char status[64];                // space for an MPI_Status
};
void observe_before_call(const CallShape& shape, Word* arguments, CallObservation& before);

// Called after the MPI library's function, if it has succeeded: completes the description of the call, and adds the
// sent bytes to the thread's table.
void observe_after_call(const CallShape& shape, const Word* arguments, CallObservation& before, Table& table);

// Measures the overhead of this profiling layer per call, after MPI_Init.
void measure_layer_overhead();

}  // namespace nearfield::forecast
