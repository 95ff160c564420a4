/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A Valgrind tool that records the loads and stores of a program without hooks, by instruction. This folder is under
   the GPL, version 2 or later (LICENSE), like Valgrind; the rest of nearfield is not, and works without this tool.

   The preloaded recorder (../recorder.cpp) makes client requests that start and stop the recording and append events to
   the stream; this tool appends the accesses. It records the initial thread, in the program and in libraries, but not
   the code of MPI libraries and of nearfield, and not during MPI calls. x86-64 only. */
#include "pub_tool_basics.h"
#include "pub_tool_aspacemgr.h"
#include "pub_tool_debuginfo.h"
#include "pub_tool_libcassert.h"
#include "pub_tool_libcbase.h"
#include "pub_tool_libcfile.h"
#include "pub_tool_libcprint.h"
#include "pub_tool_libcproc.h"
#include "pub_tool_machine.h"
#include "pub_tool_mallocfree.h"
#include "pub_tool_stacktrace.h"
#include "pub_tool_threadstate.h"
#include "pub_tool_tooliface.h"

#include "preload/observe/requests.h"
#include "preload/observe/valgrind/tool.h"

int nearfield_is_recording = 0;

static ThreadId recorded_thread = VG_INVALID_THREADID;
static ThreadId running_thread = VG_INVALID_THREADID;
static Bool is_switched_on = False;    /* the last NEARFIELD_STATE request has switched recording on */
static Bool is_in_mpi = False;         /* the last NEARFIELD_STATE request was made inside an MPI call */
static Bool has_other_threads = False; /* threads of the program have run */
static Bool* is_mpi_thread_by_id;      /* by thread: created inside an MPI call, or by a thread that was */
static struct nearfield_region region;
static Bool is_in_region = True;
static Addr region_entry_stack_pointer; /* the stack pointer on entry to the region */

static void update_recording(void) {
  nearfield_is_recording = is_switched_on && is_in_region && running_thread == recorded_thread;
}

/* ---- functions that recording.cpp calls */

void* nearfield_allocate_zeroed(unsigned long bytes) { return VG_(calloc)("nearfield", 1, bytes); }

int nearfield_find_object(unsigned long code, unsigned long* begin, unsigned long* end, unsigned long* base,
                          const char** path) {
  const DebugInfo* debug_info = VG_(find_DebugInfo)(VG_(current_DiEpoch)(), code);
  const NSegment* segment = VG_(am_find_nsegment)(code);
  const HChar* name = segment ? VG_(am_get_filename)(segment) : NULL;
  if (!name) return 0;
  *begin = segment->start;
  *end = segment->end;
  *base = debug_info ? VG_(DebugInfo_get_text_bias)(debug_info) : segment->start - segment->offset;
  *path = VG_(strdup)("nearfield", name);
  return 1;
}

int nearfield_write_all(int file, const void* bytes, unsigned long size) {
  const char* from = bytes;
  while (size > 0) {
    const Int done = VG_(write)(file, from, size);
    if (done <= 0) {
      VG_(umsg)("nearfield: cannot write the stream. The program continues without being recorded.\n");
      return 0;
    }
    from += done;
    size -= done;
  }
  return 1;
}

/* gcc emits calls of strlen, and no C library is linked. */
SizeT strlen(const char* text);
SizeT strlen(const char* text) { return VG_(strlen)(text); }

/* ---- which code is recorded */

static Bool is_code_excluded(Addr code) {
  static const HChar* const excluded_prefixes[] = {"libnearfield_", "libmpi", "libopen-", "libpmi",
                                                   "libprte",       "libuc",  "libfabric"};
  const NSegment* segment = VG_(am_find_nsegment)(code);
  const HChar* path = segment ? VG_(am_get_filename)(segment) : NULL;
  if (!path) return False;
  const HChar* slash = VG_(strrchr)(path, '/');
  const HChar* name = slash ? slash + 1 : path;
  for (UInt i = 0; i < sizeof excluded_prefixes / sizeof *excluded_prefixes; ++i)
    if (VG_(strncmp)(name, excluded_prefixes[i], VG_(strlen)(excluded_prefixes[i])) == 0) return True;
  return False;
}

static void enter_region(HWord stack) {
  if (running_thread != recorded_thread || is_in_region) return;
  is_in_region = True;
  region_entry_stack_pointer = stack;
  nearfield_record_region(region.name, 1);
  update_recording();
}

/* Called after each return instruction. Ends the region if the stack pointer is above its value on entry to the region:
   then the region's function, or a function further out, has returned. */
static void leave_region_if_returned(HWord stack) {
  if (running_thread != recorded_thread || !is_in_region || stack <= region_entry_stack_pointer) return;
  is_in_region = False;
  nearfield_record_region(region.name, 0);
  update_recording();
}

/* ---- instrumentation of translated code */

typedef struct {
  IRSB* out;
  Addr instruction;
  UInt bytes, num_accesses; /* length of the instruction, and number of its accesses so far */
} Translation;

static IRExpr* word_constant(HWord value) { return mkIRExpr_HWord(value); }

static IRExpr* address_plus(Translation* block, IRExpr* address, UInt offset) {
  if (offset == 0) return address;
  const IRTemp result = newIRTemp(block->out->tyenv, Ity_I64);
  addStmtToIRSB(block->out, IRStmt_WrTmp(result, IRExpr_Binop(Iop_Add64, address, word_constant(offset))));
  return IRExpr_RdTmp(result);
}

static void add_helper_call(Translation* block, const HChar* name, void* function, IRExpr** arguments, IRExpr* guard) {
  IRDirty* dirty = unsafeIRDirty_0_N(0, name, VG_(fnptr_to_fnentry)(function), arguments);
  if (guard) dirty->guard = guard;
  addStmtToIRSB(block->out, IRStmt_Dirty(dirty));
}

/* Adds a call that records one access. The n-th access of an instruction gets the location of byte n + 1 of the
   instruction, so that the accesses are distinct and the instruction's arithmetic counts once. `nearfield show` looks
   up the source line of the byte before a location, as for a return address. */
static void add_access_call(Translation* block, IRExpr* address, UInt bytes, Bool is_store, IRExpr* guard) {
  const Addr code_location =
      block->instruction + 1 + (block->num_accesses < block->bytes ? block->num_accesses++ : block->bytes - 1);
  HWord kind = 0;
  while (kind < 10 && bytes != 1u << kind / 2) kind += 2;
  kind += is_store;
  if (kind >= 10)
    add_helper_call(block, "nearfield_record_range", nearfield_record_range,
                    mkIRExprVec_4(word_constant(code_location), word_constant(kind), address, word_constant(bytes)),
                    guard);
  else
    add_helper_call(block, "nearfield_record_access", nearfield_record_access,
                    mkIRExprVec_3(word_constant(code_location), word_constant(kind), address), guard);
}

static void add_access(Translation* block, IRExpr* address, Int bytes, Bool is_store, IRExpr* guard) {
  const UInt piece = bytes > 16 && bytes % 16 == 0 && bytes <= 64 ? 16 : bytes;
  for (Int at = 0; at < bytes; at += piece)
    add_access_call(block, address_plus(block, address, at), piece, is_store, guard);
}

static Int bytes_of_value(const Translation* block, const IRExpr* value) {
  return sizeofIRType(typeOfIRExpr(block->out->tyenv, value));
}

static void instrument_statement(Translation* block, const IRStmt* statement) {
  switch (statement->tag) {
    case Ist_WrTmp: {
      const IRExpr* value = statement->Ist.WrTmp.data;
      if (value->tag == Iex_Load)
        add_access(block, value->Iex.Load.addr, sizeofIRType(value->Iex.Load.ty), False, NULL);
      break;
    }
    case Ist_Store:
      add_access(block, statement->Ist.Store.addr, bytes_of_value(block, statement->Ist.Store.data), True, NULL);
      break;
    case Ist_StoreG: {
      const IRStoreG* store = statement->Ist.StoreG.details;
      add_access(block, store->addr, bytes_of_value(block, store->data), True, store->guard);
      break;
    }
    case Ist_LoadG: {
      const IRLoadG* load = statement->Ist.LoadG.details;
      IRType all = Ity_INVALID, loaded = Ity_INVALID;
      typeOfIRLoadGOp(load->cvt, &all, &loaded);
      add_access(block, load->addr, sizeofIRType(loaded), False, load->guard);
      break;
    }
    case Ist_CAS: {
      const IRCAS* swap = statement->Ist.CAS.details;
      const Int bytes = bytes_of_value(block, swap->dataLo) * (swap->dataHi ? 2 : 1);
      /* In a locked addition a separate load precedes the compare-and-swap. */
      if (block->num_accesses == 0) add_access(block, swap->addr, bytes, False, NULL);
      add_access(block, swap->addr, bytes, True, NULL);
      break;
    }
    case Ist_LLSC: {
      const IRExpr* stored = statement->Ist.LLSC.storedata;
      const IRTemp loaded = statement->Ist.LLSC.result;
      const Int bytes = stored ? bytes_of_value(block, stored) : sizeofIRType(typeOfIRTemp(block->out->tyenv, loaded));
      add_access(block, statement->Ist.LLSC.addr, bytes, stored != NULL, NULL);
      break;
    }
    case Ist_Dirty: {
      const IRDirty* dirty = statement->Ist.Dirty.details;
      if (dirty->mFx == Ifx_Read || dirty->mFx == Ifx_Modify)
        add_access(block, dirty->mAddr, dirty->mSize, False, dirty->guard);
      if (dirty->mFx == Ifx_Write || dirty->mFx == Ifx_Modify)
        add_access(block, dirty->mAddr, dirty->mSize, True, dirty->guard);
      break;
    }
    default:
      break;
  }
}

static void add_call_with_stack_pointer(Translation* block, const VexGuestLayout* layout, const HChar* name,
                                        void* function) {
  const IRTemp stack = newIRTemp(block->out->tyenv, Ity_I64);
  addStmtToIRSB(block->out, IRStmt_WrTmp(stack, IRExpr_Get(layout->offset_SP, Ity_I64)));
  add_helper_call(block, name, function, mkIRExprVec_1(IRExpr_RdTmp(stack)), NULL);
}

static IRSB* instrument(VgCallbackClosure* closure, IRSB* in, const VexGuestLayout* layout,
                        const VexGuestExtents* extents, const VexArchInfo* arch, IRType guest, IRType host) {
  Translation block = {deepCopyIRSBExceptStmts(in), 0, 1, 0};
  if (guest != Ity_I64 || is_code_excluded(closure->readdr)) return in;
  for (Int i = 0; i < in->stmts_used; ++i) {
    const IRStmt* statement = in->stmts[i];
    if (statement->tag == Ist_IMark) {
      block.instruction = statement->Ist.IMark.addr;
      block.bytes = statement->Ist.IMark.len ? statement->Ist.IMark.len : 1;
      block.num_accesses = 0;
    }
    /* Statements before the first IMark belong to Valgrind. */
    if (block.instruction) instrument_statement(&block, statement);
    addStmtToIRSB(block.out, in->stmts[i]);
    if (statement->tag == Ist_IMark && region.size && block.instruction == region.begin)
      add_call_with_stack_pointer(&block, layout, "enter_region", enter_region);
  }
  if (region.size && in->jumpkind == Ijk_Ret)
    add_call_with_stack_pointer(&block, layout, "leave_region_if_returned", leave_region_if_returned);
  return block.out;
}

/* ---- client requests */

/* Unwinds the stack of the recorded thread, whose innermost frames belong to the recorder and the profiling layer.
   Stores the call sites outside of the frame with return address `called_from`, at most `max_count`. Returns their
   number. */
static UWord find_call_sites(Addr called_from, Addr* addresses, UWord max_count) {
  Addr frames[32];
  const UInt depth = VG_(get_StackTrace)(recorded_thread, frames, 32, NULL, NULL, 0);
  UWord num_found = 0;
  UInt i = 0;
  while (i < depth && frames[i] + 1 != called_from) ++i;
  while (++i < depth && num_found < max_count) addresses[num_found++] = frames[i] + 1;
  return num_found;
}

static void begin_recording(ThreadId thread, Int file, const struct nearfield_region* requested) {
  recorded_thread = running_thread = thread;
  region = *requested;
  is_in_region = region.size == 0;
  is_mpi_thread_by_id = VG_(calloc)("nearfield", VG_N_THREADS, sizeof(Bool));
  nearfield_begin_stream(file);
}

static Bool handle_request(ThreadId thread, UWord* words, UWord* result) {
  *result = 0;
  switch (words[0]) {
    case NEARFIELD_PRESENT:
      *result = 1;
      return True;
    case NEARFIELD_BEGIN:
      begin_recording(thread, (Int)words[1], (const struct nearfield_region*)words[2]);
      *result = 1;
      return True;
    case NEARFIELD_STATE:
      is_switched_on = words[1] != 0;
      is_in_mpi = words[2] != 0;
      update_recording();
      return True;
    case NEARFIELD_EVENT:
      if (has_other_threads) nearfield_record_other_threads();
      nearfield_append_event((const unsigned char*)words[1], words[2]);
      return True;
    case NEARFIELD_PLACE:
      *result = nearfield_resolve_code(words[1], (unsigned long*)words[2]);
      return True;
    case NEARFIELD_CALLERS:
      *result = find_call_sites(words[1], (Addr*)words[2], words[3]);
      return True;
    case NEARFIELD_FLUSH:
      nearfield_finish_chunk();
      return True;
    case NEARFIELD_END:
      is_switched_on = False;
      update_recording();
      if (has_other_threads) nearfield_record_other_threads();
      nearfield_end_stream();
      return True;
    default:
      return False;
  }
}

/* ---- threads and forked children */

static void record_thread_created(ThreadId parent, ThreadId new_thread) {
  if (recorded_thread == VG_INVALID_THREADID) return;
  is_mpi_thread_by_id[new_thread] = is_mpi_thread_by_id[parent] || (parent == recorded_thread && is_in_mpi);
}

static void record_thread_scheduled(ThreadId thread, ULong blocks) {
  running_thread = thread;
  if (recorded_thread == VG_INVALID_THREADID) return;
  if (thread != recorded_thread && !is_mpi_thread_by_id[thread]) has_other_threads = True;
  update_recording();
}

static void stop_in_forked_child(ThreadId thread) {
  is_switched_on = False;
  update_recording();
}

static void begin_tool(void) {}
static void end_tool(Int code) {}

static void declare_tool(void) {
  VG_(details_name)("nearfield");
  VG_(details_version)(NULL);
  VG_(details_description)("records loads and stores for nearfield observe");
  VG_(details_copyright_author)("The authors of nearfield, under the GNU GPL, version 2 or later.");
  VG_(details_bug_reports_to)("nearfield");
  VG_(details_avg_translation_sizeB)(400);
  VG_(basic_tool_funcs)(begin_tool, instrument, end_tool);
  VG_(needs_client_requests)(handle_request);
  VG_(track_pre_thread_ll_create)(record_thread_created);
  VG_(track_start_client_code)(record_thread_scheduled);
  VG_(atfork)(NULL, NULL, stop_in_forked_child);
}

VG_DETERMINE_INTERFACE_VERSION(declare_tool)
