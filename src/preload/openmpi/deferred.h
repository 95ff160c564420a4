// Fragments in ordinary memory, for use when vader has none left.
//
// All classes share the fragments of vader's module. If a send gets no fragment, pml/ob1 retries it whenever it makes
// progress; but it retries an acknowledgement only when a fragment of its own class completes. If all fragments
// belonged to another class, the acknowledgement would wait forever. So a class that gets no fragment is given a few of
// our own. They are queued, and copied into vader's fragments when these are available again: a class is refused only
// while a fragment of its own is in flight.
#pragma once

#include "peers.h"

// Same as btl_alloc; returns NULL if the class has several in flight, or `size` is more than vader ever sends in one
// piece. (btl_prepare_src needs no such replacement: no acknowledgement comes from there.)
mca_btl_base_descriptor_t* deferred_alloc(int class_index, uint8_t order, size_t size, uint32_t flags);
bool is_deferred(const mca_btl_base_descriptor_t* fragment);
int deferred_send(mca_btl_base_module_t* module, struct peer* peer, mca_btl_base_descriptor_t* fragment,
                  mca_btl_base_tag_t tag);
void deferred_free(mca_btl_base_descriptor_t* fragment);
// Frees the fragments that remain at process end, when nothing is sent any more.
void deferred_finish(void);
