"""Modules that all parts of nearfield use: units, errors, the topology, TOML files and error messages about them, the
disk cache, journals of finished work, and progress reports of long work."""
