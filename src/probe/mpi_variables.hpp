// Reads the size thresholds of the MPI through its tool interface (MPI_T): they name the protocol switches that the
// engine observes.
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace nearfield::probe {

/// Returns the integer control variables whose names mention a size or threshold, by name. Call after MPI_Init.
std::map<std::string, std::int64_t> mpi_thresholds();

}  // namespace nearfield::probe
