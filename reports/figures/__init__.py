"""Figures, one a file: pure functions from runs to plotly figures."""
