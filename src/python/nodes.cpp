// Binds base/node_watch.hpp and base/job_end.hpp: the hub of nearfield's own process, and members that are Python processes.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <unistd.h>

#include <cstdio>
#include <mutex>
#include <string>

#include "base/job_end.hpp"
#include "base/node_watch.hpp"

namespace nb = nanobind;
using nearfield::LostNode, nearfield::NodeWatch;

namespace {

class NodeHub {
 public:
  NodeHub()
      : watch_(std::make_unique<NodeWatch>([this](const LostNode& node) {
          const std::lock_guard guard(lock_);
          if (lost_.empty()) lost_ = node.text();
          return true;
        })) {}
  std::string address() const { return watch_ ? watch_->address() : ""; }
  std::string lost() {
    const std::lock_guard guard(lock_);
    return lost_;
  }
  std::string first_ended_node() { return watch_ ? watch_->first_ended_node() : ""; }
  void close() { watch_.reset(); }

 private:
  std::mutex lock_;
  std::string lost_;
  std::unique_ptr<NodeWatch> watch_;
};

class NodeMember {
 public:
  explicit NodeMember(const std::string& address)
      : watch_(std::make_unique<NodeWatch>(address, [](const LostNode& node) -> bool {
          dprintf(STDERR_FILENO, "nearfield: %s; this process ends\n", node.text().c_str());
          _exit(5);
        })) {}
  void close() { watch_.reset(); }

 private:
  std::unique_ptr<NodeWatch> watch_;
};

}  // namespace

void bind_nodes(nb::module_& module) {
  const auto released = nb::call_guard<nb::gil_scoped_release>();
  nb::class_<NodeHub>(module, "NodeHub", "Watches the nodes of a job, each by a connection to one of its processes.")
      .def(nb::init<>())
      .def_prop_ro("address", &NodeHub::address, "The address for members; empty if no connection can be accepted.")
      .def("lost", &NodeHub::lost, "Returns a text that names the first node that was lost; empty if none was.")
      .def("first_ended_node", &NodeHub::first_ended_node,
           "Returns the node of the first process that ended without notice; empty if none did.")
      .def("close", &NodeHub::close, released, "Ends the watch.");
  module.def("end_job", &nearfield::end_job, nb::arg("text"), released,
             "Prints the text and ends this process with exit code 1, and a launcher that is an ancestor of it.");
  nb::class_<NodeMember>(module, "NodeMember",
                         "Connects this process to a hub. If the hub is lost, this process ends with exit code 5.")
      .def(nb::init<const std::string&>(), nb::arg("address"))
      .def("close", &NodeMember::close, released, "Ends the watch.");
}
