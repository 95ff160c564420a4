// Reads the MPI's thresholds through the tool interface (MPI_T), to give the observed behaviour a name.
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace nearfield::probe {

/// Returns the integer control variables whose names mention a size or threshold; to be called after MPI_Init.
std::map<std::string, std::int64_t> mpi_thresholds();

}  // namespace nearfield::probe
