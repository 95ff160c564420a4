// NEARFIELD_EXPORT exports a function that interposes on a library function of the same name, or that other code looks
// up by dlsym.
#pragma once

#define NEARFIELD_EXPORT extern "C" __attribute__((visibility("default")))
