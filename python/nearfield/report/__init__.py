"""The report of a profile: its findings as sentences (`findings`), the evaluated placement guidelines (`rules`), and
the HTML page with both and with plots (`page`)."""
