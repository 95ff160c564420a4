// One BTL module per class, which interposes on vader's module. Its limits are those of the class; vader's module moves
// all bytes.
#pragma once

#include <opal/mca/btl/btl.h>

#include "preload/pair_rules/pair_rules.h"

extern mca_btl_base_component_t mca_btl_nearfield_component;

// Called by btl_init. `rules` must live as long as the component. Returns a list of `*n` modules for Open MPI to free.
mca_btl_base_module_t** create_modules(const struct pair_rules* rules, int* n);
