"""Kinds of layers, one a file: which fields describe them, and what they keep."""
