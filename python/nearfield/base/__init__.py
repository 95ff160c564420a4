"""What every part of nearfield is built on: units, errors, the topology, files that people may edit and the mistakes in
them, the disk cache, journals of finished work, and the progress of long work."""
