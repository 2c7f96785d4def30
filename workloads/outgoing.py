"""The one gate for texts that go out: what came from a file or a name is shown, never obeyed.

Control characters (escape sequences, line ends, marks that turn the direction of writing) and
halves of surrogate pairs are shown as escapes. A file name that is no UTF-8 keeps its odd bytes as
`\\xe9`, so that it can be told from others.
"""

import re
from typing import Any, TextIO

_CONTROL = "\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ufeff"
_UNSEEN = re.compile(f"[{_CONTROL}\ud800-\udfff]")
_UNSEEN_IN_LINES = re.compile(f"(?![\n\t])[{_CONTROL}\ud800-\udfff]")
_TAG = re.compile(r"<(?!/?(?:b|br|extra)>)")
_HALF = re.compile("[\ud800-\udfff]")


def visible(text: str) -> str:
    """The text in one line, with everything a terminal or page would obey or not show escaped."""
    return _UNSEEN.sub(_escape, text)


def visible_lines(text: str) -> str:
    """The same, but line ends and tabs stay: whoever prints several lines means them."""
    return _UNSEEN_IN_LINES.sub(_escape, text)


def visible_in(value: Any) -> Any:
    """A JSON value whose texts, keys included, are `visible`."""
    if isinstance(value, str):
        return visible(value)
    if isinstance(value, list):
        return [visible_in(part) for part in value]
    if isinstance(value, dict):
        return {visible_in(key): visible_in(part) for key, part in value.items()}
    return value


def in_page(value: Any) -> Any:
    """What a template prints (jinja2's `finalize`): texts visible, markup of our own as it is."""
    is_text = isinstance(value, str) and not hasattr(value, "__html__")
    return visible_lines(value) if is_text else value


def in_chart(text: str) -> str:
    """The text for plotly, which reads tags: none but its bold, line break and empty box."""
    return _TAG.sub("&lt;", visible_lines(text))


def cell_text(text: str) -> str:
    """The text for a cell of CSV: visible, and nothing that a spreadsheet takes for a formula."""
    return (
        f"'{visible(text)}" if text.startswith(("=", "+", "-", "@", "\t", "\r")) else visible(text)
    )


def encodable(text: str) -> str:
    """The text as UTF-8 can hold it."""
    return _HALF.sub(_escape, text)


def _escape(match: re.Match[str]) -> str:
    code = ord(match[0])
    if 0xDC80 <= code <= 0xDCFF:  # a byte of a file name that is no UTF-8
        return f"\\x{code - 0xDC00:02x}"
    return f"\\u{code:04x}"


class Visible:
    """A text stream that writes what it is given with control characters as `\\u001b`.

    Line ends and tabs are kept: whoever prints several lines means them. JSON stays JSON. rich,
    which writes escape sequences of its own, finds the stream behind it.
    """

    def __init__(self, stream: TextIO) -> None:
        self.rich_proxied_file = stream

    def write(self, text: str) -> int:
        """Write the text; returns its length."""
        self.rich_proxied_file.write(_UNSEEN_IN_LINES.sub(_in_json, text))
        return len(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.rich_proxied_file, name)


def _in_json(match: re.Match[str]) -> str:
    return "\ufffd" if _HALF.match(match[0]) else f"\\u{ord(match[0]):04x}"
