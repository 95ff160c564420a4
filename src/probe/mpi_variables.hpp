// Reads the size thresholds of the MPI through its tool interface (MPI_T). They are the names for the protocol switches
// that the engine observes.
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace nearfield::probe {

/// Returns, by name, the values of the integer control variables whose names contain a word such as "threshold" or
/// "eager_limit". Must be called after MPI_Init.
std::map<std::string, std::int64_t> read_mpi_thresholds();

}  // namespace nearfield::probe
