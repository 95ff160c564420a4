// Starts the library when it is loaded, opens the heap when MPI has been initialized, writes the report when the
// program ends.
#pragma once

#include "preload/heap/settings.hpp"

namespace nearfield::heap {

const Settings& settings();

// Applies the rules of the site, and starts the copy service for other ranks. Called when the process starts if its MPI
// library is loaded by then; otherwise called by the thread that calls MPI_Init, before that call.
void prepare_for_mpi();

// Opens the heap unless it is disabled or open already. Called by the thread that has initialized MPI.
void open_heap_if_enabled();
// Keeps the heap closed permanently, unless it is open already; the report gives the reason.
void keep_heap_closed(const char* reason);

}  // namespace nearfield::heap
