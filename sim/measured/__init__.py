"""Real runs beside predictions."""
