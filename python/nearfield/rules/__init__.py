"""A rule: settings of one MPI at one core distance, the gain measured for them, and when they apply."""
