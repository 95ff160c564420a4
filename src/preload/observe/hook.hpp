// The files of hooks include this. They are compiled for two recorders: that of observed processes, and the one
// of `rewrite --verify`, which NEARFIELD_RECORDER names then.
#pragma once

#ifdef NEARFIELD_RECORDER
#include NEARFIELD_RECORDER
#else
#include "preload/observe/recorder.hpp"
#endif

#define CODE __builtin_return_address(0)
#define HOOK extern "C" __attribute__((visibility("default")))
