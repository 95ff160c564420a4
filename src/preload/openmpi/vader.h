// Looks up vader, Open MPI's shared-memory transport, which moves all bytes.
#pragma once

#include <opal/mca/btl/btl.h>
#include <stdbool.h>

// NULL until find_vader() has found them.
extern mca_btl_base_component_t* vader_component;
extern mca_btl_base_module_t* vader;

// Called at the first add_procs. Returns false if Open MPI has not selected vader.
bool find_vader(void);
