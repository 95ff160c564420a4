// The processes of this node that the stock transport reaches, each asked of it exactly once.
//
// bml/r2 asks every module for every process; the stock transport makes a new endpoint at each asking, and numbers its
// endpoints in the order of asking. So peers_resolve() asks in the order and with the sets that r2 would have used, and
// everyone else is answered from the table.
#pragma once

#include <opal/mca/btl/btl.h>
#include <opal/util/proc.h>
#include <opal_config.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// A class module gives its address to r2 as the endpoint. It differs from the stock endpoint on purpose: pml/ob1 takes
// two modules with the same endpoint for two ways to send, and would bypass the class.
struct peer {
  struct mca_btl_base_endpoint_t* stock;  // NULL: the stock transport does not reach it
  opal_proc_t* proc;
  int class_index;       // -1: left to the stock module
  bool reachable;        // what the stock transport said; false for this process itself
  uintptr_t begin, end;  // where its memory is mapped here; from there come its messages
};

typedef int class_of_fn(const opal_proc_t* proc);

// Asks the stock transport about those not in the table. A peer gets a class only if its memory was found (segments.h).
int peers_resolve(mca_btl_base_module_t* stock, mca_btl_base_module_add_procs_fn_t stock_add, size_t n,
                  opal_proc_t** procs, class_of_fn* class_of);
struct peer* peers_find(const opal_proc_t* proc);
void peers_remove(struct peer* peer);
void peers_clear(void);

// Returns the class of every peer, or -1 if there are several, or some are left to the stock module.
int peers_only_class(void);
size_t peers_count(void);
// Calls the function for each peer that has a class.
void peers_each(void (*tell)(const struct peer* peer));
