#include "halo/costs.hpp"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>
#include <stdexcept>

namespace nearfield::halo {
namespace {

std::string read_file(const std::string& file, std::string& problem) {
  std::ifstream in(file);
  std::ostringstream contents;
  contents << in.rdbuf();
  if (!in.is_open())
    problem = "the costs in " + file + " cannot be read: " + std::strerror(errno) +
              "; name a file that nearfield's verb halo wrote with --costs PROFILE, or unset NEARFIELD_HALO_COSTS";
  return contents.str();
}

}  // namespace

// All ranks use the costs that rank 0 reads from the file, so that all ranks make the same decisions.
planning::CostsWithOrigin find_costs(const std::string& requested_file, const Node& node) {
  std::string file = requested_file, text, problem;
  if (const char* named = std::getenv("NEARFIELD_HALO_COSTS"); file.empty() && named) file = named;
  if (node.rank == 0 && !file.empty()) text = read_file(file, problem);
  throw_collectively(node.comm, problem, ErrorCode::argument);
  int bytes = node.rank == 0 && file.empty() ? -1 : static_cast<int>(text.size());
  MPI_Bcast(&bytes, 1, MPI_INT, 0, node.comm);
  if (bytes < 0) return {planning::default_costs(), "nearfield's defaults"};
  text.resize(static_cast<std::size_t>(bytes));
  MPI_Bcast(text.data(), bytes, MPI_CHAR, 0, node.comm);
  try {
    return planning::parse_costs(text, file);
  } catch (const std::invalid_argument& wrong) {
    problem = wrong.what();
  }
  throw_collectively(node.comm, problem, ErrorCode::argument);
  return {};
}

}  // namespace nearfield::halo
