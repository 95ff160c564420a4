// The table of peers. Searched linearly, but only while processes are added and removed, never for a message.
#include "peers.h"

#include <opal/class/opal_bitmap.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "segments.h"

static struct peer** table;
static size_t n_peers, capacity;

struct peer* peers_find(const opal_proc_t* proc) {
  for (size_t i = 0; i < n_peers; ++i)
    if (table[i]->proc == proc) return table[i];
  return NULL;
}

static bool is_on_this_node(const opal_proc_t* proc) {
  return proc->proc_name.jobid == OPAL_PROC_MY_NAME.jobid && OPAL_PROC_ON_LOCAL_NODE(proc->proc_flags);
}

static struct peer* add_peer(opal_proc_t* proc) {
  if (n_peers == capacity) {
    struct peer** more = realloc(table, (capacity + 64) * sizeof(struct peer*));
    if (!more) return NULL;
    table = more;
    capacity += 64;
  }
  struct peer* peer = calloc(1, sizeof *peer);
  if (!peer) return NULL;
  peer->proc = proc;
  peer->class_index = -1;
  return table[n_peers++] = peer;
}

static int add_to_vader(mca_btl_base_module_t* vader, mca_btl_base_module_add_procs_fn_t vader_add_procs, size_t n,
                        opal_proc_t** procs, struct mca_btl_base_endpoint_t** endpoints, opal_bitmap_t* reachable) {
  int rc = opal_bitmap_init(reachable, (int)n);
  if (OPAL_SUCCESS == rc) rc = vader_add_procs(vader, n, procs, endpoints, reachable);
  for (size_t i = 0; OPAL_SUCCESS == rc && i < n; ++i) {
    struct peer* peer = add_peer(procs[i]);
    if (!peer) return OPAL_ERR_OUT_OF_RESOURCE;
    peer->vader = endpoints[i];
    peer->reachable = endpoints[i] && opal_bitmap_is_set_bit(reachable, (int)i);
  }
  return rc;
}

// Assigns classes to all peers from `first` on, or to none of them: peers that are left to vader's module share its
// fragments with those of a class, and have no deferred fragments.
static void assign_classes(size_t first, class_of_fn* class_of) {
  static bool is_reported;
  if (!segments_locate(table + first, n_peers - first)) {
    if (!is_reported && opal_process_info.my_local_rank == 0)
      fprintf(stderr,
              "nearfield: vader's memory is not in files of its own (XPMEM, or another shmem); no rules are used\n");
    is_reported = true;
    return;
  }
  for (size_t i = first; i < n_peers; ++i)
    if (table[i]->reachable) table[i]->class_index = class_of(table[i]->proc);
}

int peers_resolve(mca_btl_base_module_t* vader, mca_btl_base_module_add_procs_fn_t vader_add_procs, size_t n,
                  opal_proc_t** procs, class_of_fn* class_of) {
  static int failed = OPAL_SUCCESS;
  if (OPAL_SUCCESS != failed) return failed;  // adding the peers again would number vader's endpoints wrongly
  opal_proc_t** fresh = calloc(n ? n : 1, sizeof *fresh);
  struct mca_btl_base_endpoint_t** endpoints = calloc(n ? n : 1, sizeof *endpoints);
  size_t n_fresh = 0;
  for (size_t i = 0; fresh && i < n; ++i)
    if (is_on_this_node(procs[i]) && !peers_find(procs[i])) fresh[n_fresh++] = procs[i];
  if (!fresh || !endpoints) {
    failed = OPAL_ERR_OUT_OF_RESOURCE;
  } else if (n_fresh) {
    const size_t first = n_peers;
    opal_bitmap_t reachable;
    OBJ_CONSTRUCT(&reachable, opal_bitmap_t);
    failed = add_to_vader(vader, vader_add_procs, n_fresh, fresh, endpoints, &reachable);
    OBJ_DESTRUCT(&reachable);
    if (OPAL_SUCCESS == failed) assign_classes(first, class_of);
  }
  free(fresh);
  free(endpoints);
  return failed;
}

void peers_remove(struct peer* peer) {
  for (size_t i = 0; i < n_peers; ++i)
    if (table[i] == peer) {
      memmove(&table[i], &table[i + 1], (n_peers - i - 1) * sizeof *table);
      --n_peers;
      free(peer);
      return;
    }
}

void peers_clear(void) {
  while (n_peers) free(table[--n_peers]);
  free(table);
  table = NULL;
  capacity = 0;
}

int peers_only_class(void) {
  int only = -1;
  for (size_t i = 0; i < n_peers; ++i) {
    if (!table[i]->reachable) continue;
    if (table[i]->class_index < 0 || (only >= 0 && only != table[i]->class_index)) return -1;
    only = table[i]->class_index;
  }
  return only;
}

size_t peers_count(void) { return n_peers; }

void peers_each(void (*visit)(const struct peer* peer)) {
  for (size_t i = 0; i < n_peers; ++i)
    if (table[i]->class_index >= 0) visit(table[i]);
}
