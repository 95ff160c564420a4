// Applies the rules of a site (a cluster) in each process of a job, without a launcher's help.
//
// An administrator installs this library as PREFIX/lib/libnearfield_heap.so (`nearfield site`), and preloads it into
// jobs. From its own path the library finds these files:
//
//   PREFIX/site.conf        the switch for all users, and the path of the log of jobs
//   PREFIX/rules.d/*.conf   for each type of node and MPI, the variables to set and the heap's settings
//
// In a process that has an MPI, the first file in alphabetical order that is for this MPI and this type of node
// applies: its variables are set before MPI_Init reads them, unless the user has set them. So the nodes of one job may
// be of several types, and any launcher may have started the process. docs/reference/site.md describes the files.
//
// The site's rules do not apply if the library is not in a site's folder, or if NEARFIELD_HEAP is set, by which
// `nearfield run` passes its own rules. In a site's folder the heap is off until rules switch it on. It also stays off
// for an unknown MPI, for rules that cannot be read, and in processes that nearfield's own commands start
// (NEARFIELD_SITE=0).
#pragma once

#include "preload/heap/settings.hpp"

namespace nearfield::heap {

// Returns whether NEARFIELD_OFF switches everything off for this process.
bool is_off_for_user();

// Finds out whether this library belongs to a site. If so, switches the heap off until apply_site_rules() switches it
// on. Called when the process starts, after NEARFIELD_HEAP has been read.
void detect_site(Settings& settings);

// If this library belongs to a site and the process has an MPI, sets the variables of the rules for this node, and
// writes their settings of the heap into `settings`. If there are no such rules, the heap stays off. A further call
// does nothing. Must be called before the MPI reads its variables.
void apply_site_rules(Settings& settings);

// Returns why the site has switched the heap off for this process; nullptr if it has not.
const char* reason_site_closed_heap();

// Prints the messages about the rules, if this process is the first rank of its node. Called in MPI_Init.
void print_site_message();

// Records the number of ranks of MPI_COMM_WORLD for the log.
void record_num_ranks(int count);

// Adds a line for this node to the site's log, if there is one and this process is the first rank of its node. Called
// when the process ends.
void write_job_log_line();

}  // namespace nearfield::heap
