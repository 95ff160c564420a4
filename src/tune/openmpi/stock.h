// The transport that moves every byte: vader and its module.
#pragma once

#include <opal/mca/btl/btl.h>
#include <stdbool.h>

// NULL until stock_look_up() has found them.
extern mca_btl_base_component_t* stock_component;
extern mca_btl_base_module_t* stock;

// Called at the first add_procs. Returns false if Open MPI has not chosen that transport.
bool stock_look_up(void);
