// Included by all files that define hooks (hooks.cpp, atomics.cpp, ranges.cpp). They are compiled for two recorders:
// the recorder of observed processes, and the recorder of `rewrite --verify`. For the latter, NEARFIELD_RECORDER is
// defined as the name of its header.
#pragma once

#ifdef NEARFIELD_RECORDER
#include NEARFIELD_RECORDER
#else
#include "preload/observe/recorder.hpp"
#endif

#define CALL_SITE __builtin_return_address(0)
#define HOOK extern "C" __attribute__((visibility("default")))
