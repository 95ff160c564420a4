// Fragments in ordinary memory, for when the stock transport has none left.
//
// All classes share the fragments of one stock module. A send that gets none pml/ob1 tries again whenever it makes
// progress; but an acknowledgement that gets none, only when a fragment of its own class is done. Were all fragments
// with another class, it would wait for ever. So a class that gets none is given a few of our own. They are queued, and
// copied into the stock transport's when it has some again: a class is refused only while one of its own is on the way.
#pragma once

#include "peers.h"

// Works as btl_alloc; returns NULL when the class has several on the way, or `size` is more than the stock transport
// ever sends in one piece. (btl_prepare_src needs no such help: no acknowledgement comes from there.)
mca_btl_base_descriptor_t* deferred_alloc(int class_index, uint8_t order, size_t size, uint32_t flags);
bool is_deferred(const mca_btl_base_descriptor_t* fragment);
int deferred_send(mca_btl_base_module_t* module, struct peer* peer, mca_btl_base_descriptor_t* fragment,
                  mca_btl_base_tag_t tag);
void deferred_free(mca_btl_base_descriptor_t* fragment);
// Drops the fragments that a process has left at its end, when nothing is sent any more.
void deferred_finish(void);
