"""The report: what a profile shows, in words (`findings`, `rules`) and as one HTML page (`render`, `write`)."""
