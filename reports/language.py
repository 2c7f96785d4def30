"""The language that pages, summaries and help speak: English in the source, others by a catalogue.

A catalogue is the files of locale/<language>/, English text to translation: page.json what pages
and summaries say, help.json what --help does, runs.json what a run folder brings.
tests/reports/test_language.py holds them complete. Numbers, names of policies and commands are the
same in every language.
"""

import json
import re
from collections.abc import Iterator, Sequence
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
    said = known.format(**values) if values else known
    return said if current() == "en" else _tight(said)


def _tight(text: str) -> str:
    """Without the space that a value brings beside a full-width sign, which has its own."""
    return re.sub(r"(?<=[，。；：（）、]) (?=\S)|(?<=\S) (?=[，。；：（）、])", "", text)


def retold(text: str) -> str:
    """A finished text, as a run folder brings it, in the current language.

    Where it isn't in the catalogue whole, it is taken for a filling of one of its templates, or for
    several texts joined by semicolons; what is neither stays as it is.
    """
    if current() == "en":
        return text
    known = catalogue(current())
    if text in known:
        return known[text]
    for pattern, template in _templates(current()):
        if found := pattern.fullmatch(text):
            fields = {name: retold(value) for name, value in found.groupdict().items()}
            return known[template].format(**fields)
    before, semicolon, last = text.rpartition("; ")  # from behind: what is before may have its own
    return f"{retold(before)}；{retold(last)}" if semicolon else text


@cache
def _templates(language: Language) -> list[tuple[re.Pattern[str], str]]:
    """Those with the most words of their own first."""
    found = []
    for text in _file(language, "runs.json"):
        if names := re.findall(r"\{(\w+)\}", text):
            pattern = re.escape(text)
            for name in names:
                value = r"[\d.,]+" if re.fullmatch(r"n\d", name) else ".+?"  # n1, n2: numbers
                pattern = pattern.replace(rf"\{{{name}\}}", f"(?P<{name}>{value})")
            found.append((re.compile(pattern), text))
    return sorted(found, key=lambda one: -len(one[1]))


def spoken(words: Sequence[str]) -> tuple[Language, list[str]]:
    """What --lang says, wherever it stands among the words of a command, and the other words.

    Raises InputError for a language that isn't spoken here.
    """
    name, others = "en", []
    left = iter(words)
    for word in left:
        if word == "--lang":
            name = next(left, "")
        elif word.startswith("--lang="):
            name = word.removeprefix("--lang=")
        else:
            others.append(word)
    return language(name), others


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
    names = ("page.json", "help.json", "runs.json")
    return {text: said for name in names for text, said in _file(language, name).items()}


def _file(language: Language, name: str) -> dict[str, str]:
    file = files("reports") / "locale" / language / name
    found: dict[str, str] = json.loads(file.read_text(encoding="utf-8"))
    return found
