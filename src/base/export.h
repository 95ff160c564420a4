// For functions that stand before another library's of the same name, or are looked up by it.
#pragma once

#define NEARFIELD_EXPORT extern "C" __attribute__((visibility("default")))
