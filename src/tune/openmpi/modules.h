// One module per class, in front of the stock one. Limits are the class's; every byte is moved by the stock module.
#ifndef NEARFIELD_TUNE_OPENMPI_MODULES_H
#define NEARFIELD_TUNE_OPENMPI_MODULES_H

#include "classes.h"
#include "peers.h"

extern mca_btl_base_component_t mca_btl_nearfield_component;

// Called by btl_init. `rules` must live as long as the component. Returns a list of `*n` modules for Open MPI to free.
mca_btl_base_module_t** modules_make(const struct rules* rules, int* n);

// The stock transport and its module; NULL until the first peers are added, and ever after if there is none.
mca_btl_base_component_t* stock_component(void);
mca_btl_base_module_t* stock_module(void);

#endif
