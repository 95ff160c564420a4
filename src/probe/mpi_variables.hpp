// Reads the MPI's own thresholds through the tool interface (MPI_T), to name the observed behaviour.
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace nearfield::probe {

/// Returns the integer control variables whose names speak of a size or a threshold; call after MPI_Init.
std::map<std::string, std::int64_t> mpi_thresholds();

}  // namespace nearfield::probe
