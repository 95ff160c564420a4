"""The output of all commands: tables, progress, drawings of a machine's topology, and building blocks of HTML pages."""
