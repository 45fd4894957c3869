"""Whose sentences the translator learned from, and on what terms."""

from __future__ import annotations

from dataclasses import dataclass

from lookleft.errors import InputError
from lookleft.train.settings import PHRASES, DataSettings


@dataclass(frozen=True)
class Origin:
    """Where a part of the training text comes from."""

    what: str
    authors: str
    licence: str


# Only those whose licence lets a model be passed on if their authors are named.
FREE = {
    "tatoeba": Origin(
        "everyday sentences",
        "the contributors of tatoeba.org, from the dev and test data of the Tatoeba Translation "
        "Challenge and from manythings.org",
        "CC BY 2.0 FR",
    ),
    "tico19": Origin(
        "medical and public-health sentences, professional translation", "TICO-19", "CC0 1.0"
    ),
    "wikipedia-crowd": Origin(
        "Hindi Wikipedia sentences with crowd-sourced English translations",
        "the authors of Hindi Wikipedia; Post, Callison-Burch and Osborne 2012",
        "CC BY-SA 3.0",
    ),
    "bible-nt": Origin(
        "New Testament, verse by verse",
        "Unlocked Literal Bible (Door43 World Missions Community) and its Hindi version (Bridge "
        "Connectivity Solutions)",
        "CC BY-SA 4.0",
    ),
    "xquad": Origin(
        "encyclopaedia questions and sentences, professional translation", "XQuAD", "CC BY-SA 4.0"
    ),
    "android": Origin(
        "system and app strings",
        "Android (LineageOS repositories) and the Wikipedia app",
        "Apache-2.0",
    ),
    "chromium": Origin("browser strings", "the Chromium authors, Chromium 150", "BSD-3-Clause"),
}
WEIGHTS_LICENCE = "CC-BY-SA-4.0"  # the strictest of the above: it asks for itself


def check_free(data: DataSettings) -> None:
    """Raise if a model trained on this data may not be passed on as we do."""
    if data.train == PHRASES:
        return
    if not data.origins:
        raise InputError(
            f"this run was trained on all of {data.train}; the bundled translator may learn from "
            f"some origins only: train with data.origins = {sorted(FREE)}"
        )
    others = sorted(set(data.origins) - FREE.keys())
    if others:
        raise InputError(
            f"data.origins: the licence of {', '.join(others)} does not let us pass the model on; "
            f"train on some of {', '.join(FREE)}"
        )
