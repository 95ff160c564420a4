// Fragments that come round late.
//
// The stock transport uses the fragment next that came back last. Every line of it is then still in the private cache
// of the receiver, who has just read it, and the sender must take it from there before it may write: on a Zen 4, with
// one last-level cache for both, 7 bytes per ns in place of 33. So the last that came back are held, the oldest of them
// returned, until the memory that a message and those held take is a ring that the private caches have lost.
//
// Messages of up to STORE_BUFFER_BYTES, about what fits the sender's store buffer, do not wait for their lines; they go
// as ever.
#ifndef NEARFIELD_TUNE_OPENMPI_ROTATION_H
#define NEARFIELD_TUNE_OPENMPI_ROTATION_H

#include <stddef.h>

#include "peers.h"

enum { STORE_BUFFER_BYTES = 12 << 10 };

// Before a fragment of `size` bytes, of a message of `message` bytes, is taken from the stock module. All in bytes.
void rotation_turn(struct mca_btl_base_endpoint_t* endpoint, uint8_t order, size_t size, size_t message, size_t ring,
                   uint32_t flags);
// Gives back all that are held; false if there are none.
bool rotation_give_back(void);
// Nothing is sent any more, and the stock module may be gone: what is held, it frees itself.
void rotation_finish(void);

#endif
