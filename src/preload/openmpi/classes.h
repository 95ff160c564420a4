// The user's rules for the transport parameters of a pair of processes, and the class of each peer.
//
// A class is a distance that has a rule; all distances without a rule share DEFAULT_CLASS, which has vader's limits.
// The rules are parsed once, in btl_init, on every rank, and are read-only afterwards.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/distances.h"

// The distances of two processes, nearest first, and their number, NUM_DISTANCES.
enum { NEARFIELD_EACH_DISTANCE(NEARFIELD_DISTANCE_ENUMERATOR) NUM_DISTANCES };
enum { DEFAULT_CLASS = NUM_DISTANCES, NUM_CLASSES };

#define SINGLE_COPY_NEVER SIZE_MAX

// The limits of a class in bytes; 0 means vader's value. eager_limit and max_send_size include Open MPI's own headers,
// as its MCA parameters of the same names do.
struct limits {
  size_t eager_limit;
  size_t max_send_size;
  size_t single_copy_from;  // smallest message that the kernel may copy directly from process to process
};

// A pair whose distance the user has given.
struct given_pair {
  uint32_t low_rank, high_rank;  // ranks in MPI_COMM_WORLD
  int distance;
};

struct rules {
  bool has_rule[NUM_DISTANCES];  // whether there is a rule for the distance
  struct limits limits[NUM_CLASSES];
  struct given_pair* given_pairs;  // sorted by (low, high)
  size_t num_given_pairs;
};

// Parse the parameters btl_nearfield_rules and btl_nearfield_classes. Return true, or false with a line in `error` that
// describes the mistake and its position in characters (from 1). An empty string is an empty set of rules.
bool parse_rules(struct rules* rules, const char* text, char* error, size_t error_size);
bool parse_given_pairs(struct rules* rules, const char* text, char* error, size_t error_size);
void free_rules(struct rules* rules);

bool are_rules_empty(const struct rules* rules);
bool has_class(const struct rules* rules, int class_index);

// Returns the class of the pair of world ranks (own_rank, peer_rank). `locality`: Open MPI's opal_proc_t.proc_flags of
// the peer. Ranks that are not pinned have the distance same_node.
int class_of_pair(const struct rules* rules, uint32_t own_rank, uint32_t peer_rank, uint16_t locality);
