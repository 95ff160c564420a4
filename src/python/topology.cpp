// Binds nearfield._native.Topology: the data of topology/topology.hpp with the distances between PUs, which Python sees
// as names.
#include "topology/topology.hpp"

#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "base/node_type.hpp"
#include "python/text.hpp"
#include "topology/core_latency.hpp"
#include "topology/distance.hpp"

namespace nb = nanobind;
namespace topo = nearfield::topology;

namespace {

struct BoundTopology {
  topo::Topology topology;
  topo::DistanceTable table{topology};
};

std::string distance_name(topo::Distance distance) {
  return std::string(topo::distance_names[static_cast<std::size_t>(distance)]);
}

topo::Distance distance_by_name(const std::string& name) {
  const auto position = std::find(topo::distance_names.begin(), topo::distance_names.end(), name);
  if (position == topo::distance_names.end()) throw topo::TopologyError("there is no distance '" + name + "'");
  return static_cast<topo::Distance>(position - topo::distance_names.begin());
}

nb::dict tree_as_dict(const topo::HardwareObject& node) {
  nb::dict attributes;
  for (const auto& [key, value] : node.attributes)
    attributes[key.c_str()] = std::visit([](const auto& v) { return nb::cast(v); }, value);
  nb::list children;
  for (const topo::HardwareObject& child : node.children) children.append(tree_as_dict(child));
  nb::dict dict;
  dict["type"] = node.type;
  dict["name"] = node.name;
  dict["os_index"] = node.os_index;
  dict["attrs"] = attributes;
  dict["children"] = children;
  return dict;
}

nb::dict representatives_as_dict(const BoundTopology& self) {
  nb::dict dict;
  for (const auto& [distance, pair] : self.table.representative_pairs())
    dict[distance_name(distance).c_str()] = nb::cast(pair);
  return dict;
}

std::vector<std::string> existing_distance_names(const BoundTopology& self) {
  std::vector<std::string> names;
  for (topo::Distance distance : self.table.existing_distances()) names.push_back(distance_name(distance));
  return names;
}

void bind_cache(nb::module_& module) {
  nb::class_<topo::Cache>(module, "Cache")
      .def_ro("level", &topo::Cache::level)
      .def_prop_ro(
          "kind", [](const topo::Cache& self) { return self.kind; },
          nb::sig("def kind(self) -> typing.Literal['data', 'unified', 'instruction']"))
      .def_ro("size_bytes", &topo::Cache::size_bytes)
      .def_ro("line_bytes", &topo::Cache::line_bytes)
      .def_ro("ways", &topo::Cache::ways)
      .def_ro("pus", &topo::Cache::pus);
}

void bind_node_type(nb::module_& module) {
  using nearfield::NodeType;
  nb::class_<NodeType>(module, "NodeType")
      .def_prop_ro("processor", [](const NodeType& self) { return std::string(self.processor); })
      .def_prop_ro("cache_bytes",
                   [](const NodeType& self) {
                     return std::vector<std::int64_t>(self.cache_bytes, self.cache_bytes + self.num_caches);
                   })
      .def_prop_ro("distances", [](const NodeType& self) {
        std::vector<std::string> names;
        for (std::size_t i = 0; i < topo::distance_names.size(); ++i)
          if (self.has_distance[i]) names.emplace_back(topo::distance_names[i]);
        return names;
      });
  module.def(
      "node_type", [](const std::string& root) { return nearfield::read_node_type(root.c_str()); },
      nb::arg("root") = "");
}

}  // namespace

void bind_topology(nb::module_& module) {
  nb::exception<topo::TopologyError>(module, "TopologyError");
  bind_cache(module);
  bind_node_type(module);

  std::vector<std::string> names(topo::distance_names.begin(), topo::distance_names.end());
  module.attr("DISTANCES") = nb::tuple(nb::cast(names));
  module.def("flag_ns", &topo::measure_c2c_latency_ns, nb::call_guard<nb::gil_scoped_release>());

  nb::class_<BoundTopology>(module, "Topology")
      .def_static("live", [] { return BoundTopology{topo::load_live_topology()}; })
      .def_static(
          "from_xml",
          [](const nb::bytes& xml) { return BoundTopology{topo::load_xml_topology({xml.c_str(), xml.size()})}; })
      .def_static("from_synthetic",
                  [](const std::string& text) { return BoundTopology{topo::load_synthetic_topology(text)}; })
      .def_prop_ro("pus", [](const BoundTopology& self) { return self.topology.pus; })
      .def_prop_ro("cores", [](const BoundTopology& self) { return self.topology.cores; })
      .def_prop_ro("caches", [](const BoundTopology& self) { return self.topology.caches; })
      .def_prop_ro("numa_nodes", [](const BoundTopology& self) { return self.topology.numa_nodes; })
      .def_prop_ro("packages", [](const BoundTopology& self) { return self.topology.packages; })
      .def_prop_ro("cpu_model", [](const BoundTopology& self) { return self.topology.cpu_model; })
      .def_prop_ro("xml", [](const BoundTopology& self) { return self.topology.xml; })
      .def(
          "tree", [](const BoundTopology& self) { return tree_as_dict(self.topology.tree); },
          nb::sig("def tree(self) -> dict[str, typing.Any]"))
      .def("distance",
           [](const BoundTopology& self, int a, int b) { return distance_name(self.table.distance_between(a, b)); })
      .def("distances", &existing_distance_names)
      .def("pairs", [](const BoundTopology& self,
                       const std::string& name) { return self.table.pairs_at_distance(distance_by_name(name)); })
      .def("representatives", &representatives_as_dict,
           nb::sig("def representatives(self) -> dict[str, tuple[int, int]]"));
}
