// Included by all files that define hooks (hooks.cpp, atomics.cpp, ranges.cpp). They are compiled for two recorders:
// the recorder of observed processes, and the recorder of `rewrite --verify`, whose header NEARFIELD_RECORDER then
// names.
#pragma once

#ifdef NEARFIELD_RECORDER
#include NEARFIELD_RECORDER
#else
#include "preload/observe/recorder.hpp"
#endif

#define CODE __builtin_return_address(0)
#define HOOK extern "C" __attribute__((visibility("default")))
