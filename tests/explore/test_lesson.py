"""What cannot be shown is refused with a code, its numbers, and what to do instead."""

from __future__ import annotations

from typing import Any

import pytest
from explore.speakers import (
    ENGLISH,
    HINDI,
    guesser,
    trace_of,
    translator,
    writer,
)

from lookleft.bundle import Bundle
from lookleft.errors import InputError
from lookleft.explore.layout import trace_json
from lookleft.explore.lesson import with_mask
from lookleft.explore.states import HARD_LIMIT, LIMIT, ExploreError
from lookleft.text.vocab import Specials

LONG = "the cat sat on " * 20


@pytest.mark.parametrize(
    ("speaker", "asked", "code", "says"),
    [
        (translator(), {"source": " "}, "empty", "type a sentence"),
        (translator(), {"target": ""}, "empty", "type a sentence"),
        (translator(), {"source": LONG}, "too_long", "shows up to 64"),
        (writer(), {"target": LONG}, "too_long", "shows up to 64"),
        (writer(), {"target": LONG * 20, "long": "window"}, "bad_request", "at most 4,000"),
        (writer(), {"target": "the"}, "empty", "one token"),
        (writer(), {"source": ENGLISH}, "cannot", "no encoder that reads a source"),
        (writer(), {"cover": (0,)}, "cannot", "covered up"),
        (guesser(), {"inputs": "own"}, "cannot", "nothing word by word"),
        (guesser(), {"is_masked": False}, "cannot", "no mask"),
        (guesser(), {"cover": (99,)}, "bad_request", "cannot be covered"),
    ],
)
def test_each_state_has_its_code(
    speaker: Bundle, asked: dict[str, Any], code: str, says: str
) -> None:
    with pytest.raises(ExploreError, match=says) as caught:
        trace_of(speaker, **asked)
    assert caught.value.code == code
    assert caught.value.to_json()["error"]["message"] == str(caught.value)


def test_too_long_names_the_count_and_is_never_cut_silently() -> None:
    with pytest.raises(ExploreError) as caught:
        trace_of(writer(), target=LONG)
    count = caught.value.details["tokens"]
    assert caught.value.details == {
        "side": "target",
        "tokens": count,
        "limit": LIMIT,
        "hard_limit": HARD_LIMIT,
    }
    cut = trace_json(trace_of(writer(), target=LONG, long="cut"))
    assert cut["cut"] == {"side": "target", "kept": LIMIT, "of": count}
    assert len(cut["columns"]) == LIMIT - 1
    whole = trace_json(trace_of(writer(), target=LONG, long="window"))
    assert whole["cut"] is None
    assert len(whole["columns"]) == count - 1


def test_a_vocabulary_without_a_mask_token_covers_nothing() -> None:
    speaker = guesser()
    speaker.specials = Specials()
    with pytest.raises(ExploreError, match="no mask token"):
        trace_of(speaker, cover=(1,))


def test_text_beyond_the_context_of_the_model_is_the_model_s_own_refusal() -> None:
    speaker = writer()
    config = speaker.network.config.model_copy(update={"max_len": 4})
    speaker.network.config = config
    with pytest.raises(InputError, match="reads at most 4"):
        trace_of(speaker, target="the cat sat on the mat how are you")


def test_without_a_target_the_model_writes_one() -> None:
    shown = trace_json(trace_of(translator(), target=None, max_new=5))
    assert shown["settings"]["target"] == "model"
    assert len(shown["wanted"]) <= 5


def test_a_prompt_is_gone_on_from() -> None:
    shown = trace_json(trace_of(writer(), target="the cat", target_from="model", max_new=3))
    n_prompt = shown["settings"]["n_given"]
    assert len(shown["wanted"]) == n_prompt + 3 - 1
    assert shown["target"]["text"].startswith("the cat")


def test_taking_the_mask_away_leaves_the_model_as_it_was() -> None:
    network = translator().network
    twin = with_mask(network, False)
    assert (network.config.mask, twin.config.mask) == ("causal", "none")
    assert twin.embedding is network.embedding
    assert with_mask(network, None) is network
    assert with_mask(twin, True).config == network.config


def test_markup_in_a_sentence_is_text_like_any_other() -> None:
    shown = trace_json(trace_of(translator(), source="<b onclick=x>hi</b>", target=HINDI))
    said = "".join(token["text"] for token in shown["source"]["tokens"])
    assert said.replace("␣", "") == "<bonclick=x>hi</b>"
