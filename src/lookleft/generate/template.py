"""Renders chat templates, which are foreign code, in a process of its own that can do nothing else.

    python -m lookleft.generate.template < {"template", "messages", ...} > the text

The sandbox keeps a template from reaching out of its language; the limits on the process keep it
from eating time and memory inside it, which no sandbox can (a string doubled forty times is
enough). Imports nothing heavy: a turn of a conversation waits for it.
"""

from __future__ import annotations

import datetime
import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from lookleft.errors import ConfigError, InputError, MissingExtraError

MAX_TEMPLATE = 262_144  # characters
MAX_TEXT = 4_000_000  # bytes that may come out
SECONDS = 2  # of one core
PATIENCE = 10  # seconds on the clock: the machine may be busy
MEMORY = 512 * 2**20  # bytes of address space

_NO_JINJA, _REFUSED, _BROKEN = 4, 5, 6  # exit codes of the process


def render(template: str, messages: Sequence[Mapping[str, str]], **names: Any) -> str:
    """The conversation as the model wants it spelt, the beginning of its next turn included.

    messages: {"role": "user" | "assistant" | "system", "content": ...}; names: what else the
    template may use, such as bos_token.
    """
    if len(template) > MAX_TEMPLATE:
        raise ConfigError(
            f"a chat template of {len(template):,} characters; limit {MAX_TEMPLATE:,}"
        )
    job = {"template": template, "messages": list(messages), "add_generation_prompt": True, **names}
    try:
        done = subprocess.run(
            [sys.executable, "-P", "-m", "lookleft.generate.template"],
            input=json.dumps(job).encode("utf-8"),
            capture_output=True,
            timeout=PATIENCE,
        )
    except subprocess.TimeoutExpired:
        raise ConfigError(f"the chat template took more than {PATIENCE} seconds") from None
    said = done.stderr.decode("utf-8", "replace").strip()[-500:]
    if done.returncode == _NO_JINJA:
        raise MissingExtraError("chat", "chat", "jinja2")
    if done.returncode == _REFUSED:
        raise InputError(f"the chat template refuses this conversation: {said}")
    if done.returncode or len(done.stdout) > MAX_TEXT:
        raise ConfigError(
            f"the chat template cannot be rendered: {said or 'it wants too much time or memory'}"
        )
    return done.stdout.decode("utf-8")


class Refusal(Exception):
    """What a template raises on purpose."""


def _render_here(job: dict[str, Any]) -> str:
    """The text; only for a process that is limited."""
    from jinja2.ext import loopcontrols
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    # As transformers sets it up: templates are written for that.
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols]
    )
    environment.filters["tojson"] = _to_json
    environment.globals |= {"raise_exception": _refuse, "strftime_now": _now}
    template = environment.from_string(job.pop("template"))
    return str(template.render(**job))


def _to_json(value: Any, indent: int | None = None) -> str:
    return json.dumps(value, ensure_ascii=False, indent=indent)


def _refuse(message: str) -> NoReturn:
    raise Refusal(message)


def _now(pattern: str) -> str:
    return datetime.datetime.now().strftime(pattern)


def _limit_this_process() -> None:
    """No more than SECONDS of time and MEMORY bytes; where the system cannot, time alone."""
    try:
        import resource
    except ImportError:
        return
    for kind, most in ((resource.RLIMIT_CPU, SECONDS), (resource.RLIMIT_AS, MEMORY)):
        resource.setrlimit(kind, (most, most))


def _main() -> int:
    job = json.loads(sys.stdin.buffer.read())
    try:
        import jinja2
    except ImportError:
        return _NO_JINJA
    _limit_this_process()
    try:
        text = _render_here(job)
    except Refusal as refusal:
        sys.stderr.write(str(refusal))
        return _REFUSED
    except MemoryError:
        sys.stderr.write("it wants too much memory")
        return _BROKEN
    except (jinja2.TemplateError, TypeError, ValueError, ArithmeticError, LookupError) as error:
        sys.stderr.write(f"{type(error).__name__}: {error}")
        return _BROKEN
    sys.stdout.buffer.write(text.encode("utf-8", "replace"))
    return 0


if __name__ == "__main__":
    sys.exit(_main())
