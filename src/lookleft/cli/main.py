"""The command table. Commands are import strings, so `lookleft --help` never imports torch."""

from __future__ import annotations

import difflib
import os
import sys

from cyclopts import App, CycloptsError, UnknownCommandError

from lookleft import __version__
from lookleft.cli.talk import drop_output
from lookleft.errors import FileError, LookleftError

# One row per command. What they need is imported inside them, so `--help` costs nothing heavy.
COMMANDS = {
    "demo": "Train a translator, prove that it looks left, see one cheat.",
    "init": "Write a commented config and a small data set to begin with.",
    "ls": "List the recipes that come with lookleft.",
    "show": "Print a recipe.",
    "cp": "Copy a recipe, to change it.",
    "config": "Say what settings mean, or in what two configs differ.",
    "check": "Look at config and data, estimate the cost; train nothing.",
    "train": "Text in, a trained model out.",
    "evaluate": "BLEU, chrF++, perplexity of a model, with signatures.",
    "translate": "Translate a sentence, a file, or standard input line by line.",
    "generate": "Write on after a prompt.",
    "chat": "Talk with a model that has a chat template.",
    "mask": "Show who may look at whom, for your own words.",
    "score": "Log-probability of every token of a text.",
    "explain": "See a sentence in a model, training beside inference.",
    "audit": "Does a model look at the future? Any PyTorch model, with evidence.",
    "quantize": "Make a model smaller: weights of 8 or 4 bits.",
    "export": "Write a model in another format, and check what was written.",
    "bench": "Measure what something costs on this machine.",
}

# Where a command is, if its file has another name.
MODULES = {"ls": "recipes", "show": "recipes", "cp": "recipes"}

HELP = """Transformers that only look left, and the proof that they do.

Try:
  lookleft mask "I am fine" --as table
  lookleft audit my_package.model:build
  lookleft score model.gguf --text "Once upon a time" --json

Commands, each with its own --help:
""" + "\n".join(f"  {name:<9} {line}" for name, line in COMMANDS.items())

app = App(
    name="lookleft",
    version=__version__,
    help=HELP,
    help_format="plaintext",
    suppress_keyboard_interrupt=False,  # else Ctrl-C would end a command without a word
)
for name in COMMANDS:
    app.command(f"lookleft.cli.{MODULES.get(name, name)}:{name}", name=name, show=False)


def main() -> None:
    """Run one command; errors a user can cause end in one sentence and an exit code."""
    try:
        app(exit_on_error=False, print_error=False)
    except CycloptsError as error:
        print(f"error: {_in_one_line(error)}", file=sys.stderr)
        # 2 is what the audit says when it cannot tell; a typing mistake must not look like that.
        sys.exit(3 if error.command_chain and error.command_chain[0] == "audit" else 2)
    except LookleftError as error:
        if os.environ.get("LOOKLEFT_DEBUG"):
            raise
        print(f"error: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
    except BrokenPipeError:
        drop_output()
        sys.exit(0)
    except OSError as error:  # a folder that may not be entered, a name that is too long
        if os.environ.get("LOOKLEFT_DEBUG") or error.filename is None:
            raise
        print(f"error: {error.filename}: {error.strerror}", file=sys.stderr)
        sys.exit(FileError.exit_code)
    except KeyboardInterrupt:
        print("\ninterrupted", file=sys.stderr)
        sys.exit(130)


def _in_one_line(error: CycloptsError) -> str:
    """What is wrong with the words typed, and the command that was probably meant."""
    if isinstance(error, UnknownCommandError) and error.unused_tokens:
        word = error.unused_tokens[0]
        near = difflib.get_close_matches(word, COMMANDS, n=1)
        hint = f'Did you mean "{near[0]}"?' if near else f"Commands are {', '.join(COMMANDS)}."
        return f'Unknown command "{word}". {hint}'
    return " ".join(str(error).split())


if __name__ == "__main__":
    main()
