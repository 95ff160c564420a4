// The MPI's own thresholds, as it tells them through the tool interface (MPI_T), to name what behaviour shows.
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace nearfield::probe {

/// Integer control variables whose names speak of a size or a threshold; call after MPI_Init.
std::map<std::string, std::int64_t> mpi_thresholds();

}  // namespace nearfield::probe
