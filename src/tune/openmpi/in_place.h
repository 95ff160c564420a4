// Where no distance has a rule of its own, no modules of ours stand in front of the stock one: a few of its functions
// are replaced in it. Nothing else changes for anybody, and short messages take no step more.
#ifndef NEARFIELD_TUNE_OPENMPI_IN_PLACE_H
#define NEARFIELD_TUNE_OPENMPI_IN_PLACE_H

#include "classes.h"
#include "peers.h"

void in_place_begin(mca_btl_base_module_t* stock, const struct rules* rules);
// Puts back what was replaced; nothing if nothing was.
void in_place_end(void);

#endif
