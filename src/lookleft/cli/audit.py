"""`lookleft audit`: does a model look at the future?"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import redirect_stdout
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from lookleft.cli.target import describe, load_target
from lookleft.errors import LookleftError, MissingExtraError

if TYPE_CHECKING:
    from lookleft.audit.verdict import Finding, Report
    from lookleft.audit.zoo.sweep import Row

_BACKENDS = {  # as transformers says, and torch.compile
    "eager": "eager",
    "sdpa": "sdpa",
    "flex": "flex_attention",
    "compile": "compile",
}
_Flag = Parameter(negative=(), show_default=False)


class UsageError(LookleftError):
    """The command cannot be carried out as typed. 3, because 2 already means inconclusive here."""

    exit_code = 3


def audit(
    target: str | None = None,
    /,
    *,
    checks: str | None = None,
    backend: str | None = None,
    spec: str = "causal",
    vocab: int | None = None,
    length: int | None = None,
    seed: int = 0,
    quick: Annotated[bool, _Flag] = False,
    tiny: Annotated[bool, _Flag] = False,
    zoo: str | None = None,
    json: Annotated[bool, _Flag] = False,
    html: Path | None = None,
    junit: Path | None = None,
    verbose: Annotated[
        bool, Parameter(name=("--verbose", "-v"), negative=(), show_default=False)
    ] = False,
) -> int:
    """Does a model look at the future? Exit code 0 no, 1 yes, 2 cannot tell, 3 wrong usage.

    Examples:
      lookleft audit my_package.model:build
      lookleft audit model.py:build --quick
      lookleft audit model.py:build --spec window:16 --checks causal,cache
      lookleft audit transformers:GPT2LMHeadModel --backend all --html report.html
      lookleft audit path/to/model-folder --json
      lookleft audit --zoo transformers --json zoo.json

    Parameters
    ----------
    target
        What to audit: module:factory, file.py:factory, transformers:ClassName, or a model folder.
    checks
        Only these, with commas between: K0, K1, ... or their names.
    backend
        Attention backends to try: all, or eager, sdpa, flex, compile with commas between.
    spec
        What output i may use: causal, strict, window:W, lookahead:K, prefix:N, stride:S,
        bidirectional, packed:0,0,1.
    vocab
        Token ids are drawn below this number.
    length
        Positions per row.
    seed
        Of weights and inputs that are drawn at random.
    quick
        Fewer probes: seconds instead of minutes.
    tiny
        Audit a small random copy of a Hugging Face model's class instead of its weights.
    zoo
        Audit every model class of a library instead of one target: transformers.
    json
        Print the report as JSON. With --zoo a file may follow, which gets every finding.
    html
        Also write the report to this file, as one page that works offline.
    junit
        Also write the report to this file, for a build server.
    verbose
        Say on stderr which check is running.
    """
    # Behind --zoo NAME --json the word that is left is no target but the file for the data.
    data = Path(target) if zoo is not None and json and target is not None else None
    if data is not None:
        target, json = None, False
    for path in (html, junit, data):
        _refuse_unwritable(path)
    talk = _Talk(is_verbose=verbose)
    options = {
        "checks": _split(checks),
        "backends": _backends(backend),
        "spec": spec,
        "vocab": vocab,
        "length": length,
        "seed": seed,
        "quick": quick,
        "tiny": tiny,
    }
    # What a stranger's model prints must not end up inside the report.
    with redirect_stdout(sys.stderr):
        report = _run(target, zoo, options, talk, data)
    talk.close()
    sys.stdout.write(_json_text(report) if json else str(report))
    if html:
        report.to_html(html)
        talk.say(f"wrote {html}")
    if junit:
        report.to_junit(junit)
        talk.say(f"wrote {junit}")
    return report.exit_code


def _run(
    target: str | None, zoo: str | None, options: dict[str, Any], talk: _Talk, data: Path | None
) -> Report:
    if (target is None) == (zoo is None):
        raise UsageError(
            "name one TARGET or one --zoo, for example: lookleft audit mypkg.model:build"
        )
    try:
        if zoo is not None:
            return _zoo(zoo, options, talk, data)
        assert target is not None
        return _one(target, options, talk)
    except MissingExtraError:
        raise
    except LookleftError as error:
        raise UsageError(str(error)) from error
    except Exception as error:
        # A traceback would end in exit code 1, which here means "the model looks at the future".
        raise UsageError(
            f"the audit of {target or zoo} stopped with {describe(error)}; "
            "set LOOKLEFT_DEBUG=1 to see the traceback"
        ) from error


def _one(target: str, options: dict[str, Any], talk: _Talk) -> Report:
    from lookleft.audit.run import audit as run_audit

    model = load_target(target, seed=options["seed"])
    talk.say(f"auditing {target}: {_name(model)}")
    report = run_audit(model, **options, progress=talk.step)
    return replace(report, target=target)


def _zoo(library: str, options: dict[str, Any], talk: _Talk, data: Path | None) -> Report:
    from lookleft.audit.report import write_text
    from lookleft.audit.verdict import Report
    from lookleft.audit.zoo.sweep import sweep
    from lookleft.audit.zoo.table import to_json

    given = {key: options[key] for key in ("checks", "backends") if options[key] is not None}
    rows = sweep(library, **given, progress=lambda row: talk.step(f"{row.verdict:<13} {row.name}"))
    if data is not None:
        write_text(data, to_json(rows))
        talk.say(f"wrote {data}")
    findings = [finding for row in rows for finding in _in_brief(row)]
    return Report(library, findings, sum(row.seconds for row in rows))


def _in_brief(row: Row) -> Iterator[Finding]:
    """Every violation of a class that nothing explains; one line if there is none."""
    from lookleft.audit.verdict import Finding, Verdict

    guilty = [entry.finding for entry in row.violations if not entry.explanation]
    for finding in guilty:
        yield replace(finding, configuration=f"{row.name}: {finding.configuration}")
    if guilty:
        return
    by_design = [entry.explanation for entry in row.entries if entry.explanation]
    open_ones = [e.finding for e in row.entries if e.finding.verdict is Verdict.INCONCLUSIVE]
    if row.failure:
        verdict, reason = Verdict.INCONCLUSIVE, f"{row.failure.lower()}: {row.reason}"
    elif open_ones:
        verdict, reason = Verdict.INCONCLUSIVE, f"{open_ones[0].check}: {open_ones[0].reason}"
    elif by_design:
        verdict, reason = Verdict.SKIPPED, f"by design: {by_design[0]}"
    elif row.entries:
        verdict, reason = Verdict.VERIFIED, f"{len(row.entries)} findings, none of them bad"
    else:
        verdict, reason = Verdict.INCONCLUSIVE, "no check applied"
    yield Finding("zoo", row.name, f"T={row.length}" if row.length else "-", verdict, reason)


def _name(model: Callable[..., Any]) -> str:
    from torch import nn

    if not isinstance(model, nn.Module):
        return getattr(model, "__name__", type(model).__name__)
    count = sum(parameter.numel() for parameter in model.parameters())
    return f"{type(model).__name__}, {count:,} parameters"


def _split(text: str | None) -> tuple[str, ...] | None:
    """The parts of a list with commas; None (the audit's own choice) for nothing or `all`."""
    if text is None or text == "all":
        return None
    return tuple(part.strip() for part in text.split(",") if part.strip())


def _backends(text: str | None) -> tuple[str, ...] | None:
    if text == "all":
        return ("all",)
    names = _split(text)
    unknown = [name for name in names or () if name not in _BACKENDS]
    if unknown:
        known = ", ".join(_BACKENDS)
        raise UsageError(f"unknown backend {unknown[0]!r}: use all, or some of {known}")
    return None if names is None else tuple(_BACKENDS[name] for name in names)


def _refuse_unwritable(path: Path | None) -> None:
    """Find out before the audit, not after it."""
    if path is None:
        return
    if path.is_dir():
        raise UsageError(f"cannot write {path}: it is a folder; name a file in it")
    if not path.parent.is_dir():
        raise UsageError(f"cannot write {path}: there is no folder {path.parent}")
    if not os.access(path.parent, os.W_OK):
        raise UsageError(f"cannot write {path}: the folder {path.parent} is read-only")


def _json_text(report: Report) -> str:
    from lookleft.audit.report import json_text

    return json_text(report)


def _in_short(finding: Finding) -> str:
    return f"{finding.verdict:<13} {finding.check} {finding.title} [{finding.configuration}]"


class _Talk:
    """What is said on stderr: one line that renews itself on a terminal, plain lines with -v."""

    def __init__(self, *, is_verbose: bool) -> None:
        self._is_live = sys.stderr.isatty()
        self._is_verbose = is_verbose
        self._width = 0

    def say(self, line: str) -> None:
        if self._is_live or self._is_verbose:
            self.close()
            print(line, file=sys.stderr)

    def step(self, news: Finding | str) -> None:
        """The audit's progress: a sentence, or a finding as soon as it is there."""
        line = news if isinstance(news, str) else _in_short(news)
        if self._is_verbose:
            print(line, file=sys.stderr)
        elif self._is_live:
            print(f"\r{line:<{self._width}}", end="", file=sys.stderr, flush=True)
            self._width = len(line)

    def close(self) -> None:
        """Wipe the renewing line, so that nothing is printed beside it."""
        if self._width:
            print(f"\r{'':<{self._width}}\r", end="", file=sys.stderr, flush=True)
            self._width = 0
