// nearfield._native.machine: the plain data of machine/machine.hpp under the same names; a module of its own, because
// the topology has a Cache, too.
#include "machine/machine.hpp"

#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

namespace nb = nanobind;
using namespace nearfield;

namespace {

void bind_words(nb::module_& module) {
  nb::enum_<Inclusion>(module, "Inclusion")
      .value("inclusive", Inclusion::inclusive)
      .value("exclusive", Inclusion::exclusive)
      .value("neither", Inclusion::neither);
  nb::enum_<WritePolicy>(module, "WritePolicy").value("back", WritePolicy::back).value("through", WritePolicy::through);
  nb::enum_<Coherence>(module, "Coherence").value("mesi", Coherence::mesi).value("moesi", Coherence::moesi);
  nb::enum_<DmaRead>(module, "DmaRead")
      .value("keep", DmaRead::keep)
      .value("clean", DmaRead::clean)
      .value("invalidate", DmaRead::invalidate);
}

void bind_core_and_caches(nb::module_& module) {
  nb::class_<Core>(module, "Core")
      .def(nb::init<>())
      .def_rw("clock_ghz", &Core::clock_ghz)
      .def_rw("cycles_per_access", &Core::cycles_per_access)
      .def_rw("outstanding_misses", &Core::outstanding_misses)
      .def_rw("outstanding_bypass", &Core::outstanding_bypass);
  nb::class_<Cache>(module, "Cache")
      .def(nb::init<>())
      .def_rw("size_bytes", &Cache::size_bytes)
      .def_rw("ways", &Cache::ways)
      .def_rw("line_bytes", &Cache::line_bytes)
      .def_rw("sub_blocks", &Cache::sub_blocks)
      .def_rw("shared_by", &Cache::shared_by)
      .def_rw("inclusion", &Cache::inclusion)
      .def_rw("write", &Cache::write)
      .def_rw("replacement", &Cache::replacement)
      .def_rw("latency_cycles", &Cache::latency_cycles)
      .def_rw("bytes_per_cycle", &Cache::bytes_per_cycle);
  nb::class_<Transfers>(module, "Transfers")
      .def(nb::init<>())
      .def_rw("shared_cycles", &Transfers::shared_cycles)
      .def_rw("remote_cycles", &Transfers::remote_cycles);
}

void bind_memory(nb::module_& module) {
  nb::class_<Dram>(module, "Dram")
      .def(nb::init<>())
      .def_rw("latency_ns", &Dram::latency_ns)
      .def_rw("gb_per_s", &Dram::gb_per_s)
      .def_rw("shared_by", &Dram::shared_by)
      .def_rw("remote_ns", &Dram::remote_ns)
      .def_rw("banks", &Dram::banks)
      .def_rw("bank_interleave_bytes", &Dram::bank_interleave_bytes)
      .def_rw("bank_busy_ns", &Dram::bank_busy_ns)
      .def_rw("gb_per_s_bypass", &Dram::gb_per_s_bypass);
  nb::class_<Tlb>(module, "Tlb")
      .def(nb::init<>())
      .def_rw("entries", &Tlb::entries)
      .def_rw("ways", &Tlb::ways)
      .def_rw("miss_cycles", &Tlb::miss_cycles);
  nb::class_<Pages>(module, "Pages")
      .def(nb::init<>())
      .def_rw("page_bytes", &Pages::page_bytes)
      .def_rw("fault_ns", &Pages::fault_ns)
      .def_rw("tlbs", &Pages::tlbs);
  nb::class_<Prefetcher>(module, "Prefetcher")
      .def(nb::init<>())
      .def_rw("streams", &Prefetcher::streams)
      .def_rw("distance_lines", &Prefetcher::distance_lines)
      .def_rw("level", &Prefetcher::level);
}

void bind_between_nodes(nb::module_& module) {
  nb::class_<Nic>(module, "Nic")
      .def(nb::init<>())
      .def_rw("gb_per_s", &Nic::gb_per_s)
      .def_rw("dma_ns", &Nic::dma_ns)
      .def_rw("post_ns", &Nic::post_ns)
      .def_rw("event_bytes", &Nic::event_bytes)
      .def_rw("event_entries", &Nic::event_entries)
      .def_rw("read_of_modified", &Nic::read_of_modified)
      .def_rw("policy", &Nic::policy)
      .def_rw("policy_ways", &Nic::policy_ways);
  nb::class_<Network>(module, "Network")
      .def(nb::init<>())
      .def_rw("topology", &Network::topology)
      .def_rw("shape", &Network::shape)
      .def_rw("nodes_per_router", &Network::nodes_per_router)
      .def_rw("latency_ns", &Network::latency_ns)
      .def_rw("hop_ns", &Network::hop_ns)
      .def_rw("gap_ns", &Network::gap_ns)
      .def_rw("link_gb_per_s", &Network::link_gb_per_s);
  nb::class_<Messaging>(module, "Messaging")
      .def(nb::init<>())
      .def_rw("network", &Messaging::network)
      .def_rw("node", &Messaging::node)
      .def_rw("eager_bytes", &Messaging::eager_bytes)
      .def_rw("node_eager_bytes", &Messaging::node_eager_bytes)
      .def_rw("ring_bytes", &Messaging::ring_bytes)
      .def_rw("send_ns", &Messaging::send_ns)
      .def_rw("receive_ns", &Messaging::receive_ns)
      .def_rw("match_ns", &Messaging::match_ns)
      .def_rw("register_ns", &Messaging::register_ns)
      .def_rw("system_call_ns", &Messaging::system_call_ns);
}

}  // namespace

void bind_machine(nb::module_& parent) {
  nb::module_ module = parent.def_submodule("machine", "A machine as the simulator takes it.");
  bind_words(module);
  bind_core_and_caches(module);
  bind_memory(module);
  bind_between_nodes(module);
  nb::class_<Machine>(module, "Machine")
      .def(nb::init<>())
      .def(nb::init<const Machine&>())
      .def_rw("name", &Machine::name)
      .def_rw("cores", &Machine::cores)
      .def_rw("core", &Machine::core)
      .def_rw("caches", &Machine::caches)
      .def_rw("coherence", &Machine::coherence)
      .def_rw("transfers", &Machine::transfers)
      .def_rw("dram", &Machine::dram)
      .def_rw("pages", &Machine::pages)
      .def_rw("prefetcher", &Machine::prefetcher, nb::arg().none())
      .def_rw("nic", &Machine::nic, nb::arg().none())
      .def_rw("network", &Machine::network, nb::arg().none())
      .def_rw("messaging", &Machine::messaging)
      .def_rw("max_nodes", &Machine::max_nodes);
}
