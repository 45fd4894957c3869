"""The command line as a whole: quick to answer, clear when wrong."""

from __future__ import annotations

import subprocess
import sys

import pytest

import lookleft
from lookleft.cli.main import COMMANDS


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "lookleft", *arguments], capture_output=True, text=True
    )


def test_help_lists_every_command() -> None:
    shown = run("--help").stdout
    for name, line in COMMANDS.items():
        assert f"  {name} " in shown
        assert line in shown


def test_help_imports_no_torch() -> None:
    code = (
        "import sys; from lookleft.cli.main import app\n"
        "try: app(['--help'])\n"
        "except SystemExit: pass\n"
        "print('torch' in sys.modules, file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stderr.strip() == "False"


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_explains_itself(name: str) -> None:
    done = run(name, "--help")
    assert done.returncode == 0
    assert f"Usage: lookleft {name}" in done.stdout
    assert "Examples:" in done.stdout
    assert "--json" in done.stdout


def test_what_the_system_refuses_is_one_line_and_no_traceback() -> None:
    name = "x" * 300  # longer than any file system takes
    done = run("train", "--data.train", f"{name}.tsv")
    assert done.returncode == 3
    assert done.stderr == f"error: {name}.tsv: File name too long\n"


def test_the_version_is_the_package_s() -> None:
    assert run("--version").stdout.strip() == lookleft.__version__


@pytest.mark.parametrize(
    ("words", "code", "sentence"),
    [
        (("msak",), 2, 'Unknown command "msak". Did you mean "mask"?'),
        (("zzz",), 2, 'Unknown command "zzz". Commands are demo,'),
        (("mask", "a b", "--widnow", "2"), 2, "Unknown option: --widnow. Did you mean --window?"),
        (("mask",), 2, 'Command "mask" parameter --sentence requires an argument.'),
        (("mask", "a b", "--pad", "x"), 2, 'Invalid value for --pad: unable to convert "x"'),
        # 2 would mean "inconclusive" there
        (("audit", "x", "--nope"), 3, "Unknown option: --nope."),
        (("audit", "x", "--quik"), 3, "Unknown option: --quik. Did you mean --quick?"),
        (("audit", "x", "--seed", "q"), 3, "Invalid value for --seed"),
    ],
)
def test_a_typing_mistake_is_one_line_on_stderr(
    words: tuple[str, ...], code: int, sentence: str
) -> None:
    done = run(*words)
    assert done.returncode == code
    assert done.stdout == ""
    assert done.stderr.startswith(f"error: {sentence}")
    assert done.stderr.count("\n") == 1


def test_an_error_is_one_sentence_without_a_traceback() -> None:
    done = run("score", "no-such-folder", "--ids", "1")
    assert done.returncode == 3
    assert done.stderr == (
        "error: no-such-folder: does not exist; give a model folder or a .gguf file\n"
    )


def test_an_interrupted_command_says_so() -> None:
    code = (
        "import sys, lookleft.cli.mask as module\n"
        "def mask(words: str) -> None: raise KeyboardInterrupt\n"
        "module.mask = mask\n"
        "sys.argv = ['lookleft', 'mask', 'x']\n"
        "from lookleft.cli.main import main\n"
        "main()"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert ended.returncode == 130
    assert ended.stderr.strip() == "interrupted"
