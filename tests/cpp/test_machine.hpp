// A small machine for tests of the simulator: three caches, numbers that are easy to add, every cost different.
#pragma once

#include "machine/machine.hpp"

inline nearfield::Machine test_machine() {
  nearfield::Machine machine;
  machine.name = "made-up";
  machine.cores = 4;
  machine.max_nodes = 64;
  machine.core = {1.0, 1, 4};
  nearfield::Cache l1, l2, l3;
  l1.size_bytes = 4096, l1.ways = 2, l1.line_bytes = 128, l1.latency_cycles = 2;
  l2.size_bytes = 32768, l2.ways = 4, l2.line_bytes = 128, l2.latency_cycles = 10;
  l3.size_bytes = 262144, l3.ways = 8, l3.line_bytes = 128, l3.latency_cycles = 40, l3.shared_by = 4;
  machine.caches = {l1, l2, l3};
  machine.transfers = {50, 80};
  machine.dram.latency_ns = 100;
  machine.dram.gb_per_s = 10;
  machine.nic.emplace();
  machine.nic->gb_per_s = 2;
  machine.nic->dma_ns = 70;
  machine.nic->post_ns = 30;
  machine.nic->event_entries = 64;
  machine.network.emplace();
  machine.network->latency_ns = 1000;
  machine.network->hop_ns = 100;
  machine.network->gap_ns = 200;
  machine.network->link_gb_per_s = 1;
  machine.messaging.eager_bytes = 2048;
  machine.messaging.node_eager_bytes = 1024;
  machine.messaging.ring_bytes = 8192;
  machine.messaging.send_ns = 3;
  machine.messaging.receive_ns = 5;
  machine.messaging.match_ns = 7;
  machine.messaging.register_ns = 11;
  machine.messaging.system_call_ns = 13;
  return machine;
}
