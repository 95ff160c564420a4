// The table of this node's processes, each of which is added to vader exactly once.
//
// bml/r2 adds every process to every module; vader creates a new endpoint each time, and numbers its endpoints in order
// of creation. So add_new_peers() adds processes to vader in the order and with the sets that r2 would have used, and
// serves later requests from the table.
#pragma once

#include <opal/mca/btl/btl.h>
#include <opal/util/proc.h>
#include <opal_config.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// A process of this node. A class module returns the address of this struct to r2 as the endpoint, deliberately not
// vader's endpoint: pml/ob1 treats two modules with the same endpoint as two ways to send, and would bypass the class.
struct peer {
  struct mca_btl_base_endpoint_t* vader;  // vader's endpoint; NULL: vader does not reach the peer
  opal_proc_t* proc;
  int class_index;                       // -1: the peer has no class and is left to vader's module
  bool is_reachable;                     // according to vader; false for this process itself
  uintptr_t segment_begin, segment_end;  // addresses in this process of the segment that holds the peer's messages
};

typedef int class_of_fn(const opal_proc_t* proc);

// Adds the processes that are not in the table to vader and to the table. If the segments of all of them are found
// (segments.h), `class_of` determines their classes; otherwise they have no class. Returns OPAL_SUCCESS or the first
// error.
int add_new_peers(mca_btl_base_module_t* vader, mca_btl_base_module_add_procs_fn_t vader_add_procs, size_t n,
                  opal_proc_t** procs, class_of_fn* class_of);
struct peer* find_peer(const opal_proc_t* proc);
void remove_peer(struct peer* peer);
void clear_peers(void);

// Returns the class of all reachable peers; -1 if they have different classes, or if some are left to vader's module.
int common_class_of_peers(void);
size_t peer_count(void);
// Calls `visit` for each peer that has a class.
void for_each_peer_with_class(void (*visit)(const struct peer* peer));
