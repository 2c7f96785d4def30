"""The command line of simulating."""
