// Determines the category, place, number and size of the messages of an MPI call from the call's arguments and the
// positions of the arguments. Arguments are passed as words: integers and pointers.
#pragma once

#include "preload/forecast/record.hpp"
#include "preload/forecast/shape.hpp"

namespace nearfield::forecast {

using ArgumentWord = std::intptr_t;

// The observation of one call, begun before and completed after the MPI library's function.
struct CallObservation {
  CallDescription description;
  bool is_send = false;
  std::uint64_t bytes_sent_on_node = 0, bytes_sent_to_other_nodes = 0;  // bytes that the call begins to send
  alignas(16) unsigned char status[64];                                 // space for an MPI_Status
};
// Called before the MPI library's function: records the data that the call will overwrite, such as the requests that it
// completes. If the program ignores the status and the size of a receive depends on the status, changes the argument to
// request it.
void observe_before_call(const ArgumentPositions& positions, ArgumentWord* arguments, CallObservation& observation);

// Called after the MPI library's function, if it has succeeded: completes the description of the call, and adds the
// sent bytes to the thread's table.
void observe_after_call(const ArgumentPositions& positions, const ArgumentWord* arguments, CallObservation& observation,
                        ThreadTable& table);

// Measures the overhead of this profiling layer per call, after MPI_Init.
void measure_layer_overhead();

}  // namespace nearfield::forecast
