"""The language that pages and summaries speak: English in the source, others by a catalogue.

A catalogue is locale/<language>.json, English text to translation; tests/reports/test_language.py
holds it complete. Numbers, names of policies and commands are the same in every language.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from importlib.resources import files
from typing import Literal

from workloads.errors import InputError

Language = Literal["en", "zh"]
LANGUAGES: dict[Language, str] = {"en": "en", "zh": "zh-CN"}
"""By name on the command line, the tag of BCP 47 for it."""

_current: ContextVar[Language] = ContextVar("language", default="en")


@contextmanager
def speaking(language: Language) -> Iterator[None]:
    """Say everything inside the block in this language."""
    token = _current.set(language)
    try:
        yield
    finally:
        _current.reset(token)


def current() -> Language:
    """The language spoken now."""
    return _current.get()


def tr(text: str, /, **values: object) -> str:
    """The text in the current language, `values` set into its braces."""
    known = text if current() == "en" else catalogue(current()).get(text, text)
    return known.format(**values) if values else known


def language(name: str) -> Language:
    """The language of this name. Raises InputError for one that isn't spoken here."""
    for known in LANGUAGES:
        if name == known:
            return known
    raise InputError(f"--lang {name}: expected one of {', '.join(LANGUAGES)}")


@cache
def catalogue(language: Language) -> dict[str, str]:
    """English to the language; empty for English itself."""
    if language == "en":
        return {}
    file = files("reports") / "locale" / f"{language}.json"
    found: dict[str, str] = json.loads(file.read_text(encoding="utf-8"))
    return found
