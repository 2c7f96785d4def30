"""vLLM's CPU build as a living engine: its steps timed, its runs foretold."""
