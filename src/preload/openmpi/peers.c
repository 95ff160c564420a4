// The table of peers. Searched linearly, but only while processes are added and removed, never for a message.
#include "peers.h"

#include <opal/class/opal_bitmap.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "segments.h"

static struct peer** peer_table;
static size_t num_peers, peer_table_capacity;

struct peer* find_peer(const opal_proc_t* proc) {
  for (size_t i = 0; i < num_peers; ++i)
    if (peer_table[i]->proc == proc) return peer_table[i];
  return NULL;
}

static bool is_on_this_node(const opal_proc_t* proc) {
  return proc->proc_name.jobid == OPAL_PROC_MY_NAME.jobid && OPAL_PROC_ON_LOCAL_NODE(proc->proc_flags);
}

static struct peer* add_peer(opal_proc_t* proc) {
  if (num_peers == peer_table_capacity) {
    struct peer** larger_table = realloc(peer_table, (peer_table_capacity + 64) * sizeof(struct peer*));
    if (!larger_table) return NULL;
    peer_table = larger_table;
    peer_table_capacity += 64;
  }
  struct peer* peer = calloc(1, sizeof *peer);
  if (!peer) return NULL;
  peer->proc = proc;
  peer->class_index = -1;
  return peer_table[num_peers++] = peer;
}

static int add_to_vader(mca_btl_base_module_t* vader, mca_btl_base_module_add_procs_fn_t vader_add_procs, size_t n,
                        opal_proc_t** procs, struct mca_btl_base_endpoint_t** endpoints, opal_bitmap_t* reachable) {
  int result = opal_bitmap_init(reachable, (int)n);
  if (OPAL_SUCCESS == result) result = vader_add_procs(vader, n, procs, endpoints, reachable);
  for (size_t i = 0; OPAL_SUCCESS == result && i < n; ++i) {
    struct peer* peer = add_peer(procs[i]);
    if (!peer) return OPAL_ERR_OUT_OF_RESOURCE;
    peer->vader = endpoints[i];
    peer->is_reachable = endpoints[i] && opal_bitmap_is_set_bit(reachable, (int)i);
  }
  return result;
}

// Assigns classes to all peers from `first` on, or to none of them: peers that are left to vader's module share its
// fragments with those of a class, and have no deferred fragments.
static void assign_classes(size_t first, class_of_fn* class_of) {
  static bool is_reported;
  if (!locate_segments(peer_table + first, num_peers - first)) {
    if (!is_reported && opal_process_info.my_local_rank == 0)
      fprintf(stderr,
              "nearfield: vader's memory is not in files of its own (XPMEM, or another shmem); no rules are used\n");
    is_reported = true;
    return;
  }
  for (size_t i = first; i < num_peers; ++i)
    if (peer_table[i]->is_reachable) peer_table[i]->class_index = class_of(peer_table[i]->proc);
}

int add_new_peers(mca_btl_base_module_t* vader, mca_btl_base_module_add_procs_fn_t vader_add_procs, size_t n,
                  opal_proc_t** procs, class_of_fn* class_of) {
  static int first_error = OPAL_SUCCESS;
  if (OPAL_SUCCESS != first_error) return first_error;  // adding the peers again would number vader's endpoints wrongly
  opal_proc_t** new_procs = calloc(n ? n : 1, sizeof *new_procs);
  struct mca_btl_base_endpoint_t** endpoints = calloc(n ? n : 1, sizeof *endpoints);
  size_t num_new_procs = 0;
  for (size_t i = 0; new_procs && i < n; ++i)
    if (is_on_this_node(procs[i]) && !find_peer(procs[i])) new_procs[num_new_procs++] = procs[i];
  if (!new_procs || !endpoints) {
    first_error = OPAL_ERR_OUT_OF_RESOURCE;
  } else if (num_new_procs) {
    const size_t first = num_peers;
    opal_bitmap_t reachable;
    OBJ_CONSTRUCT(&reachable, opal_bitmap_t);
    first_error = add_to_vader(vader, vader_add_procs, num_new_procs, new_procs, endpoints, &reachable);
    OBJ_DESTRUCT(&reachable);
    if (OPAL_SUCCESS == first_error) assign_classes(first, class_of);
  }
  free(new_procs);
  free(endpoints);
  return first_error;
}

void remove_peer(struct peer* peer) {
  for (size_t i = 0; i < num_peers; ++i)
    if (peer_table[i] == peer) {
      memmove(&peer_table[i], &peer_table[i + 1], (num_peers - i - 1) * sizeof *peer_table);
      --num_peers;
      free(peer);
      return;
    }
}

void clear_peers(void) {
  while (num_peers) free(peer_table[--num_peers]);
  free(peer_table);
  peer_table = NULL;
  peer_table_capacity = 0;
}

int common_class_of_peers(void) {
  int common_class = -1;
  for (size_t i = 0; i < num_peers; ++i) {
    if (!peer_table[i]->is_reachable) continue;
    if (peer_table[i]->class_index < 0 || (common_class >= 0 && common_class != peer_table[i]->class_index)) return -1;
    common_class = peer_table[i]->class_index;
  }
  return common_class;
}

size_t peer_count(void) { return num_peers; }

void for_each_peer_with_class(void (*visit)(const struct peer* peer)) {
  for (size_t i = 0; i < num_peers; ++i)
    if (peer_table[i]->class_index >= 0) visit(peer_table[i]);
}
