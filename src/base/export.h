// For functions that interpose on another library's of the same name, or that it looks up.
#pragma once

#define NEARFIELD_EXPORT extern "C" __attribute__((visibility("default")))
