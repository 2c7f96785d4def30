"""Other simulators on the table's workload; each is run by the Python of a venv of its own."""
