"""The report of a profile: its findings in words (`findings`, `rules`) and one HTML page (`page`)."""
