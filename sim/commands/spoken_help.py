"""`--help` in the language spoken: cyclopts' own look, its texts by the catalogue."""

from typing import TYPE_CHECKING, Any

from reports.language import LANGUAGES, current, tr

if TYPE_CHECKING:
    from cyclopts.help import HelpEntry, HelpPanel
    from rich.console import Console, ConsoleOptions

LANG = "Language of help, summaries and pages: en, or zh (简体中文)."


class SpokenHelp:
    """A formatter of help that names `--lang`, which every command takes, and translates."""

    def __init__(self) -> None:
        self._has_options = True

    def __call__(self, console: "Console", options: "ConsoleOptions", panel: "HelpPanel") -> None:
        from cyclopts.help import DefaultFormatter, HelpEntry, InlineText

        entries = list(panel.entries)
        last = "Parameters" if self._has_options else "Arguments"
        if panel.title == last or any("--version" in one.positive_names for one in entries):
            entries.append(
                HelpEntry(
                    positive_names=("--lang",),
                    metavar="CHOICE",
                    description=InlineText.from_format(LANG, "markdown"),
                    choices=tuple(LANGUAGES),
                    default="en",
                )
            )
        if current() != "en":
            entries = [_translated(entry) for entry in entries]
        DefaultFormatter()(
            console, options, panel.copy(title=tr(str(panel.title)), entries=entries)
        )

    def render_usage(self, console: "Console", options: "ConsoleOptions", usage: Any) -> None:
        from cyclopts.help import DefaultFormatter

        self._has_options = "OPTIONS" in str(usage)
        if current() == "en":
            DefaultFormatter().render_usage(console, options, usage)
        elif usage:
            words = str(usage).strip().removeprefix("Usage:").strip()
            console.print(f"{tr('Usage:')} {words}\n", markup=False, highlight=False)

    def render_description(
        self, console: "Console", options: "ConsoleOptions", description: Any
    ) -> None:
        from cyclopts.help import DefaultFormatter, InlineText

        if current() != "en" and (paragraphs := source(description).split("\n\n")) != [""]:
            whole = "\n\n".join(tr(" ".join(paragraph.split())) for paragraph in paragraphs)
            description = InlineText.from_format(whole + "\n", "markdown", force_empty_end=True)
        DefaultFormatter().render_description(console, options, description)


def source(description: Any) -> str:
    """The text that a description was made from; empty where there is none."""
    made_from = getattr(description, "primary_renderable", None)
    return str(getattr(made_from, "markup", None) or getattr(made_from, "plain", "")).strip()


def _translated(entry: "HelpEntry") -> "HelpEntry":
    """Its text, and behind it what cyclopts would say of choices, default and need."""
    from cyclopts.help import InlineText
    from rich.text import Text

    text = " ".join(source(entry.description).split())
    description = InlineText.from_format(tr(text) if text else "", "markdown")
    known = []
    if entry.choices:
        known.append(("choices", tr("choices: {choices}", choices=", ".join(entry.choices))))
    if entry.default is not None:
        default = tr("none") if entry.default == "None" else entry.default
        known.append(("default", tr("default: {default}", default=default)))
    if entry.required:
        known.append(("required", tr("required")))
    for style, words in known:
        description.append(Text(f"[{words}]", f"cyclopts.{style}"))
    return entry.copy(description=description, choices=None, default=None, required=False)
