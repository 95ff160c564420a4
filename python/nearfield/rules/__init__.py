"""What a rule is: settings of one MPI at one core distance, the gain measured for them, and when they hold."""
