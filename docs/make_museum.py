"""Writes docs/museum.md: the stories are those of the exhibits, the output is that of the audit.

    python docs/make_museum.py

takes about a minute. `tests/audit/test_museum.py` checks that the page still tells the truth.
"""

from __future__ import annotations

import re
import sys
import textwrap
from collections.abc import Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "museum.md"
sys.path.insert(0, str(ROOT / "tests"))

import torch  # noqa: E402
from leaky import EXHIBITS, GROUPS, Exhibit  # noqa: E402
from leaky.audited import first_violation  # noqa: E402

from lookleft.audit import Finding  # noqa: E402

INTRODUCTION = (
    "A language model that sees the future does not crash. It trains, its loss is excellent, and "
    "it is useless. The same holds for a cache that disagrees with the full forward, padding that "
    "is read, or documents that overhear each other: the numbers come out, and they are wrong.",
    "Every exhibit below is a mistake that was made in public, rebuilt in the smallest model that "
    "shows it. Beside each stands a twin without the mistake; by brute force, without the audit, "
    "the tests show that the mutants misbehave and the twins do not. Then the audit is let loose "
    "on both. What it says about the mutants is printed here as it said it. The twins it has to "
    "leave in peace, and does.",
    "**{exhibits} exhibits; the audit finds {caught}, and names the module at fault for {placed} "
    "of the {placeable} where there is one to name.**",
    "The models are in `tests/leaky`, a few lines of change each. This page is "
    "written by `docs/make_museum.py`.",
)
ROOMS = {
    "Masks that were never applied": "The commonest leak of all. Somewhere there is a correct "
    "triangle, and somewhere else a condition under which it is not used.",
    "Masks that hid the wrong thing": "Here the mask is applied. It is upside down, a little too "
    "long, too weak, or so strong that nothing is left.",
    "Time mixed elsewhere": "Attention is not the only place where positions meet. No mask helps "
    "against a convolution, a router or a reshape.",
    "Caches": "Training never uses them and generation always does, so a fault in a cache shows as "
    "a good model that talks nonsense.",
    "Windows and chunks": "Short tests do not reach the edge of a window. Here windows are five "
    "tokens wide.",
    "Positions": "A cache knows its keys, but who knows where they stand?",
    "Padding and batches": "A sentence should not care about its neighbours, nor about the empty "
    "seats beside it.",
    "Packed documents": "Several texts share a row to save room. They are not supposed to talk.",
    "Encoders and cross-attention": "The opposite fault exists as well: an encoder that may see "
    "everything and does not.",
    "Labels, modes and dtypes": "The model can be honest and the question wrong; or the answer "
    "changes with the mode.",
}


def main() -> None:
    torch.set_num_threads(1)
    PAGE.write_text(rendered(), encoding="utf-8")


def rendered() -> str:
    """The whole page, with fresh output of the audit."""
    found = {exhibit.name: first_violation(exhibit) for exhibit in EXHIBITS}
    parts = ["# The museum of leaks\n", *(f"{fill(text)}\n" for text in introduction(found))]
    for room, exhibits in GROUPS.items():
        parts.append(f"## {room}\n\n{fill(ROOMS[room])}\n")
        parts += [label(exhibit, found[exhibit.name]) for exhibit in exhibits]
    return "\n".join(parts)


def introduction(found: Mapping[str, Finding | None]) -> Iterator[str]:
    """The first paragraphs, with what was found counted."""
    placeable = [exhibit for exhibit in EXHIBITS if exhibit.module]
    counts = {
        "exhibits": len(EXHIBITS),
        "caught": sum(finding is not None for finding in found.values()),
        "placed": sum(is_placed(exhibit, found[exhibit.name]) for exhibit in placeable),
        "placeable": len(placeable),
    }
    yield from (text.format(**counts) for text in INTRODUCTION)


def is_placed(exhibit: Exhibit, finding: Finding | None) -> bool:
    """True if the finding names the module at fault, or one inside it."""
    module = finding.module if finding is not None else None
    return module is not None and f"{module}.".startswith(f"{exhibit.module}.")


def label(exhibit: Exhibit, finding: Finding | None) -> str:
    """One exhibit: story, what it looks like, what the audit prints."""
    told = fill(f"{exhibit.story} ({', '.join(link(thread) for thread in exhibit.threads)})")
    practice = fill(f"*In practice:* {exhibit.symptom}")
    printed = "\n".join(printout(exhibit, finding))
    return f"### {title(exhibit)}\n\n{told}\n\n{practice}\n\n```text\n{printed}\n```\n"


def title(exhibit: Exhibit) -> str:
    first, rest = exhibit.name[0], exhibit.name[1:]
    return exhibit.name if "_" in exhibit.name.split()[0] else first.upper() + rest


def printout(exhibit: Exhibit, finding: Finding | None) -> Iterator[str]:
    yield verdict_line(exhibit, finding)
    if finding is None:
        return
    yield from textwrap.wrap(finding.reason, 96)
    culprit = finding.culprit
    if culprit is not None:
        step = f", in {culprit.op}" if culprit.op else ""
        place = f", {without_root(culprit.place)}" if culprit.place else ""
        seen = f"first seen in {culprit.module} ({culprit.kind}){step}{place}"
        yield from textwrap.wrap(seen, 96, subsequent_indent="  ", break_on_hyphens=False)
    if finding.cause is not None:
        yield from textwrap.wrap(f"likely cause: {finding.cause}", 96, subsequent_indent="  ")


def verdict_line(exhibit: Exhibit, finding: Finding | None) -> str:
    """The line that the tests hold the page to."""
    if finding is None:
        return f"{exhibit.check}  not caught"
    where = f"  {finding.module}" if finding.module is not None else ""
    return f"{finding.check} {finding.title}  {finding.verdict}  [{finding.configuration}]{where}"


def without_root(place: str) -> str:
    """A place in the source as seen from the project, wherever that lies."""
    path, _, line = place.rpartition(":")
    try:
        return f"{Path(path).resolve().relative_to(ROOT)}:{line}"
    except ValueError:
        return f"{Path(path).name}:{line}"


def link(thread: str) -> str:
    owner, project, _, number = thread.removeprefix("https://github.com/").split("/")
    return f"[{owner}/{project} #{number}]({thread})"


def fill(text: str) -> str:
    """Lines of 125 columns that break between words, never inside a link."""
    glued = re.sub(r"\[[^\]]*\]", lambda found: found[0].replace(" ", "\0"), text)
    lines = textwrap.wrap(glued, 125, break_long_words=False, break_on_hyphens=False)
    return "\n".join(lines).replace("\0", " ")


if __name__ == "__main__":
    main()
