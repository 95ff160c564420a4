"""What people see of every command: tables, progress, pictures of a machine, and the building blocks of pages."""
