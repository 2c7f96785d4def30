"""Many runs for one question: grids of options, service levels searched, tables kept."""
