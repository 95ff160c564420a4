#include "preload/observe/file.hpp"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "preload/observe/connection.hpp"
#include "preload/observe/process_stream.hpp"

namespace nearfield::observe {
namespace {

using stream::ChunkHeader;

char folder_name[3072], stream_file_name[4096];
int stream_file = -1, reply_connection = -1;
bool is_live = false;
unsigned char* compressed_chunk = nullptr;
std::size_t max_compressed_bytes = 0;

// The functions of libzstd.so.1 that are used, with their stable interface; the header file may be missing on the host.
struct Zstandard {
  void* (*create_context)() = nullptr;
  std::size_t (*compress)(void*, void*, std::size_t, const void*, std::size_t, int) = nullptr;
  unsigned (*is_error)(std::size_t) = nullptr;
  void* context = nullptr;
} zstandard;

void find_zstandard() {
  void* const library = dlopen("libzstd.so.1", RTLD_NOW | RTLD_LOCAL);
  if (!library) return;
  zstandard.create_context = reinterpret_cast<decltype(zstandard.create_context)>(dlsym(library, "ZSTD_createCCtx"));
  zstandard.compress = reinterpret_cast<decltype(zstandard.compress)>(dlsym(library, "ZSTD_compressCCtx"));
  zstandard.is_error = reinterpret_cast<decltype(zstandard.is_error)>(dlsym(library, "ZSTD_isError"));
  if (!zstandard.create_context || !zstandard.compress || !zstandard.is_error) return;
  max_compressed_bytes = stream::chunk_bytes + stream::chunk_bytes / 128 + 4096;
  void* const memory = mmap(nullptr, max_compressed_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return;
  compressed_chunk = static_cast<unsigned char*>(memory);
  zstandard.context = zstandard.create_context();
}

void abort_stream(const char* problem) {
  const char* const consequence = is_live ? "The simulation is over." : "The program continues without being recorded.";
  fprintf(stderr, "nearfield: %s %s: %s. %s\n", problem, stream_file_name, strerror(errno), consequence);
  if (stream_file >= 0) close(stream_file);
  stream_file = -1;
  if (is_live) kill(getpid(), SIGTERM);  // the program runs for the simulation only
}

void write_or_abort_stream(const void* data, std::size_t bytes) {
  if (stream_file >= 0 && !write_all_bytes(stream_file, data, bytes)) abort_stream("cannot write");
}

void write_compressed_chunk(const unsigned char* raw, std::uint32_t bytes, std::uint64_t accesses,
                            std::uint32_t flags) {
  ChunkHeader header;
  header.flags = flags;
  header.raw_bytes = header.stored_bytes = bytes;
  header.accesses = accesses;
  const unsigned char* stored = raw;
  if (zstandard.context && bytes > 0) {
    const auto size = zstandard.compress(zstandard.context, compressed_chunk, max_compressed_bytes, raw, bytes, 1);
    if (!zstandard.is_error(size) && size < bytes) {
      header.flags |= ChunkHeader::packed;
      header.stored_bytes = static_cast<std::uint32_t>(size);
      stored = compressed_chunk;
    }
  }
  header.checksum = stream::checksum(header, stored);
  write_or_abort_stream(&header, sizeof header);
  write_or_abort_stream(stored, header.stored_bytes);
}

}  // namespace

bool open_stream_file(const char* target) {
  const char* const simulation = simulation_name_in(target);
  is_live = simulation;
  snprintf(folder_name, sizeof folder_name, "%s", simulation ? simulation : target);
  if (simulation) {
    snprintf(stream_file_name, sizeof stream_file_name, "the simulation, which must be on the same host");
    stream_file = connect_to_simulation(simulation);
  } else {
    char host[256] = "";
    gethostname(host, sizeof host - 1);
    snprintf(stream_file_name, sizeof stream_file_name, "%s/process-%s-%d.nfs", folder_name, host,
             static_cast<int>(getpid()));
    stream_file = open(stream_file_name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  }
  if (stream_file < 0) {
    abort_stream(simulation ? "cannot connect to" : "cannot make");
    return false;
  }
  if (!zstandard.context) find_zstandard();
  unsigned char header[stream::header_bytes] = {};
  memcpy(header, stream::file_magic, sizeof stream::file_magic);
  memcpy(header + sizeof stream::file_magic, &stream::format_version, sizeof stream::format_version);
  write_or_abort_stream(header, sizeof header);
  return true;
}

// link() fails if the name exists, so a second program that the same command starts cannot overwrite the streams of the
// first one.
void assign_rank_to_stream(int rank, int ranks) {
  if (stream_file < 0) return;
  if (is_live) {
    reply_connection = connect_rank_to_simulation(folder_name, rank, ranks);
    return;
  }
  char name[sizeof stream_file_name];
  snprintf(name, sizeof name, "%s/rank-%d.nfs", folder_name, rank);
  if (link(stream_file_name, name) != 0) {
    const int error = errno;
    unlink(stream_file_name);
    memcpy(stream_file_name, name, sizeof name);
    errno = error;
    return abort_stream(error == EEXIST ? "another program, or the parent of MPI_Comm_spawn, writes" : "cannot make");
  }
  unlink(stream_file_name);
  memcpy(stream_file_name, name, sizeof name);
}

int stream_descriptor() { return stream_file; }
int reply_descriptor() { return reply_connection; }
bool is_read_by_simulation() { return is_live && stream_file >= 0; }

void platform::write_chunk(const unsigned char* raw, std::uint32_t bytes, std::uint64_t accesses) {
  if (stream_file >= 0) write_compressed_chunk(raw, bytes, accesses, 0);
}

void close_stream_file() {
  if (stream_file < 0) return;
  write_compressed_chunk(nullptr, 0, 0, ChunkHeader::last);
  if (stream_file >= 0 && close(stream_file) != 0) abort_stream("cannot write");
  stream_file = -1;
}

void close_inherited_stream_file() {
  if (stream_file >= 0) close(stream_file);
  if (reply_connection >= 0) close(reply_connection);
  stream_file = reply_connection = -1;
}

}  // namespace nearfield::observe
