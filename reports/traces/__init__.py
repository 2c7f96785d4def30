"""Pages about traces, before anything is simulated."""
