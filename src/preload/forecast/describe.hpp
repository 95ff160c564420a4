// Determines the effect of an MPI call from its arguments and its Shape. Arguments are words: integers and pointers.
#pragma once

#include "preload/forecast/record.hpp"
#include "preload/forecast/shape.hpp"

namespace nearfield::forecast {

using Word = std::intptr_t;

// Called before the MPI library's function: determines what that will change. May change the arguments: a status that
// the program ignores is requested here.
struct Before {
  Did did;
  bool sends = false;
  std::uint64_t sent_to_node = 0, sent_to_others = 0;  // bytes, if the call begins to send
  alignas(16) unsigned char status[64];                // room for an MPI_Status
};
void look_before(const Shape& shape, Word* arguments, Before& before);

// Called after it, if it succeeded: adds to `before.did`, and to the bytes that the thread has sent.
void look_after(const Shape& shape, const Word* arguments, Before& before, Table& table);

// Measures the layer's own overhead per call, after MPI_Init.
void measure_layer();

}  // namespace nearfield::forecast
