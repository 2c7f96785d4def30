"""A model: geometry, weights, configurations."""
