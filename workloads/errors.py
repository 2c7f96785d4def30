"""The one exception for mistakes of the user: it becomes one line on stderr and exit code 2."""


class InputError(Exception):
    """What is wrong, where (file, row, field) and what was expected, in one line."""
