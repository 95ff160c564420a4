// The processes of this node that vader reaches, each added to it exactly once.
//
// bml/r2 adds every process to every module; vader creates a new endpoint each time, and numbers its endpoints in order
// of creation. So peers_resolve() adds them in the order and with the sets that r2 would have used, and later requests
// are served from the table.
#pragma once

#include <opal/mca/btl/btl.h>
#include <opal/util/proc.h>
#include <opal_config.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// A class module returns this address to r2 as the endpoint. It differs from vader's endpoint deliberately: pml/ob1
// treats two modules with the same endpoint as two ways to send, and would bypass the class.
struct peer {
  struct mca_btl_base_endpoint_t* vader;  // NULL: vader does not reach it
  opal_proc_t* proc;
  int class_index;       // -1: left to vader's module
  bool reachable;        // according to vader; false for this process itself
  uintptr_t begin, end;  // where its memory, which holds its messages, is mapped here
};

typedef int class_of_fn(const opal_proc_t* proc);

// Adds those that are not in the table to vader. A peer gets a class only if its memory was found (segments.h).
int peers_resolve(mca_btl_base_module_t* vader, mca_btl_base_module_add_procs_fn_t vader_add_procs, size_t n,
                  opal_proc_t** procs, class_of_fn* class_of);
struct peer* peers_find(const opal_proc_t* proc);
void peers_remove(struct peer* peer);
void peers_clear(void);

// Returns the class of all peers, or -1 if there are several, or if some are left to vader's module.
int peers_only_class(void);
size_t peers_count(void);
// Calls the function for each peer that has a class.
void peers_each(void (*visit)(const struct peer* peer));
