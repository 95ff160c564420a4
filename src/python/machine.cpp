// Binds nearfield._native.machine: the structs of machine/machine.hpp under the same names. They are in a submodule,
// since the parent module has another class Cache, that of the topology.
#include "machine/machine.hpp"

#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/vector.h>

#include "python/members.hpp"
#include "python/text.hpp"

namespace nb = nanobind;
using namespace nearfield;

namespace {

void bind_enums(nb::module_& module) {
  nb::enum_<Inclusion>(module, "Inclusion")
      .value("inclusive", Inclusion::inclusive)
      .value("exclusive", Inclusion::exclusive)
      .value("neither", Inclusion::neither);
  nb::enum_<WritePolicy>(module, "WritePolicy").value("back", WritePolicy::back).value("through", WritePolicy::through);
  nb::enum_<Coherence>(module, "Coherence").value("mesi", Coherence::mesi).value("moesi", Coherence::moesi);
  nb::enum_<PagePlacement>(module, "PagePlacement")
      .value("identity", PagePlacement::identity)
      .value("random", PagePlacement::random);
  nb::enum_<DmaRead>(module, "DmaRead")
      .value("keep", DmaRead::keep)
      .value("clean", DmaRead::clean)
      .value("invalidate", DmaRead::invalidate);
  nb::enum_<SocketTraffic>(module, "SocketTraffic")
      .value("remote", SocketTraffic::remote)
      .value("everything", SocketTraffic::everything);
  nb::enum_<PrefetchExtent>(module, "StreamStart").value("one", PrefetchExtent::one).value("all", PrefetchExtent::all);
  nb::enum_<PacketHeader>(module, "PacketHeader")
      .value("inline", PacketHeader::in_line)
      .value("separate", PacketHeader::separate);
  nb::enum_<CollectiveAlgorithms>(module, "CollectiveAlgorithms")
      .value("mpich", CollectiveAlgorithms::mpich)
      .value("openmpi", CollectiveAlgorithms::openmpi);
  nb::enum_<Polling>(module, "Polling").value("queue", Polling::queue).value("command", Polling::command);
}

void bind_core_and_caches(nb::module_& module) {
  bind_settable(
      nb::class_<Core>(module, "Core").def(nb::init<>()), field("clock_ghz", &Core::clock_ghz),
      field("cycles_per_access", &Core::cycles_per_access), field("outstanding_misses", &Core::outstanding_misses),
      field("outstanding_bypass", &Core::outstanding_bypass), field("window", &Core::window),
      field("flops_per_cycle", &Core::flops_per_cycle), field("flop_latency_cycles", &Core::flop_latency_cycles),
      field("mispredict_cycles", &Core::mispredict_cycles), field("copy_bytes_per_cycle", &Core::copy_bytes_per_cycle),
      field("clock_reading_ns", &Core::clock_reading_ns));
  bind_settable(nb::class_<Cache>(module, "Cache").def(nb::init<>()), field("size_bytes", &Cache::size_bytes),
                field("ways", &Cache::ways), field("line_bytes", &Cache::line_bytes),
                field("sub_blocks", &Cache::sub_blocks), field("shared_by", &Cache::shared_by),
                field("inclusion", &Cache::inclusion), field("write", &Cache::write),
                field("replacement", &Cache::replacement), field("latency_cycles", &Cache::latency_cycles),
                field("bytes_per_cycle", &Cache::bytes_per_cycle));
  bind_settable(
      nb::class_<Transfers>(module, "Transfers").def(nb::init<>()), field("shared_cycles", &Transfers::shared_cycles),
      field("remote_cycles", &Transfers::remote_cycles), field("upgrade_cycles", &Transfers::upgrade_cycles),
      field("upgrade_miss_cycles", &Transfers::upgrade_miss_cycles), field("outstanding", &Transfers::outstanding));
}

void bind_memory(nb::module_& module) {
  bind_settable(nb::class_<MemoryTier>(module, "MemoryTier").def(nb::init<>()),
                field("latency_ns", &MemoryTier::latency_ns), field("gb_per_s", &MemoryTier::gb_per_s),
                field("share", &MemoryTier::share));
  bind_settable(nb::class_<Dram>(module, "Dram").def(nb::init<>()), field("latency_ns", &Dram::latency_ns),
                field("gb_per_s", &Dram::gb_per_s), field("shared_by", &Dram::shared_by),
                field("remote_ns", &Dram::remote_ns), field("banks", &Dram::banks),
                field("bank_interleave_bytes", &Dram::bank_interleave_bytes),
                field("bank_busy_ns", &Dram::bank_busy_ns), field("gb_per_s_bypass", &Dram::gb_per_s_bypass),
                field("tiers", &Dram::tiers));
  bind_settable(nb::class_<Socket>(module, "Socket").def(nb::init<>()), field("gb_per_s", &Socket::gb_per_s),
                field("shared_by", &Socket::shared_by), field("carries", &Socket::carries));
  bind_settable(nb::class_<Links>(module, "Links").def(nb::init<>()), field("topology", &Links::topology),
                field("shape", &Links::shape), field("hubs_per_router", &Links::hubs_per_router),
                field("hop_ns", &Links::hop_ns), field("gb_per_s", &Links::gb_per_s));
  bind_settable(nb::class_<Tlb>(module, "Tlb").def(nb::init<>()), field("entries", &Tlb::entries),
                field("ways", &Tlb::ways), field("miss_cycles", &Tlb::miss_cycles));
  bind_settable(nb::class_<Pages>(module, "Pages").def(nb::init<>()), field("page_bytes", &Pages::page_bytes),
                field("placement", &Pages::placement), field("fault_ns", &Pages::fault_ns),
                field("huge_fault_ns", &Pages::huge_fault_ns), field("walkers", &Pages::walkers),
                field("tlbs", &Pages::tlbs));
  bind_settable(nb::class_<Prefetcher>(module, "Prefetcher").def(nb::init<>()), field("streams", &Prefetcher::streams),
                field("distance_lines", &Prefetcher::distance_lines), field("level", &Prefetcher::level),
                field("outstanding", &Prefetcher::outstanding), field("start", &Prefetcher::start));
}

void bind_between_nodes(nb::module_& module) {
  bind_settable(nb::class_<Nic>(module, "Nic").def(nb::init<>()), field("gb_per_s", &Nic::gb_per_s),
                field("dma_ns", &Nic::dma_ns), field("post_ns", &Nic::post_ns), field("event_bytes", &Nic::event_bytes),
                field("event_entries", &Nic::event_entries), field("read_of_modified", &Nic::read_of_modified),
                field("polling", &Nic::polling), field("policy", &Nic::policy),
                field("policy_ways", &Nic::policy_ways));
  bind_settable(nb::class_<Network>(module, "Network").def(nb::init<>()), field("topology", &Network::topology),
                field("shape", &Network::shape), field("nodes_per_router", &Network::nodes_per_router),
                field("latency_ns", &Network::latency_ns), field("hop_ns", &Network::hop_ns),
                field("gap_ns", &Network::gap_ns), field("link_gb_per_s", &Network::link_gb_per_s));
  bind_settable(nb::class_<Messaging>(module, "Messaging").def(nb::init<>()), field("network", &Messaging::network),
                field("node", &Messaging::node), field("eager_bytes", &Messaging::eager_bytes),
                field("node_eager_bytes", &Messaging::node_eager_bytes), field("ring_bytes", &Messaging::ring_bytes),
                field("send_ns", &Messaging::send_ns), field("receive_ns", &Messaging::receive_ns),
                field("match_ns", &Messaging::match_ns), field("register_ns", &Messaging::register_ns),
                field("system_call_ns", &Messaging::system_call_ns), field("copy_page_ns", &Messaging::copy_page_ns),
                field("inline_bytes", &Messaging::inline_bytes), field("piece_ns", &Messaging::piece_ns),
                field("pieces", &Messaging::pieces), field("min_pieces", &Messaging::min_pieces),
                field("unattended_bytes", &Messaging::unattended_bytes), field("headers", &Messaging::headers),
                field("collectives", &Messaging::collectives));
}

}  // namespace

void bind_machine(nb::module_& parent) {
  nb::module_ module = parent.def_submodule("machine", "The description of a machine for the simulator.");
  bind_enums(module);
  bind_core_and_caches(module);
  bind_memory(module);
  bind_between_nodes(module);
  bind_settable(nb::class_<Machine>(module, "Machine").def(nb::init<>()).def(nb::init<const Machine&>()),
                field("name", &Machine::name), field("cores", &Machine::cores), field("core", &Machine::core),
                field("caches", &Machine::caches), field("coherence", &Machine::coherence),
                field("transfers", &Machine::transfers), field("dram", &Machine::dram),
                field("socket", &Machine::socket), field("links", &Machine::links), field("pages", &Machine::pages),
                field("prefetcher", &Machine::prefetcher), field("nic", &Machine::nic),
                field("network", &Machine::network), field("messaging", &Machine::messaging),
                field("max_nodes", &Machine::max_nodes));
}
