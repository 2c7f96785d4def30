"""Readers of public trace formats: a declaration each, one fast path and one careful one."""
