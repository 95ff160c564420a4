// S3, sections 3 and 5: messages whose elements lie apart. Strided vectors of doubles, and the faces of a 3-D array
// (x: rows in one piece, y: rows apart, z: single elements apart, rows apart too: OCCOMM's double stride), sent as an
// MPI datatype, packed by hand, or contiguous for comparison; standard, synchronous and buffered sends.
#pragma once

#include "scenario/scenario.hpp"

namespace nearfield {

inline const ScenarioInfo stride_info{
    "stride",
    "Messages whose elements lie apart: strided vectors and the faces of a 3-D array",
    Ranks::pair,
    {{"size_bytes", "payload"},
     {"stride", "doubles from one element to the next"},
     {"face", "of a 3-D array in C order with ghost layers: x (rows), y (rows apart), z (elements apart)"},
     {"method", "datatype (MPI_Type_vector), manual-pack, or contiguous"},
     {"mode", "standard, synchronous or buffered send"}},
    {{"half_round_trip", "ns", Combine::root, "packing included"}},
};

}  // namespace nearfield
