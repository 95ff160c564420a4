"""The papers' claims, as data in papers/, beside what nearfield simulates: what to simulate for a claim, whether the
records say what the paper says, and a verdict that no tolerance of its own can bend."""
