"""Text as its tokens arrive: shows only what later tokens cannot change.

Held back are half characters, the last whole character (a vowel sign or an accent may follow and
belongs to it), and whatever may be the beginning of a stop string. The pieces joined are the text.
"""

from __future__ import annotations

from collections.abc import Sequence

from lookleft.errors import InputError
from lookleft.generate.graphemes import boundaries
from lookleft.text.tokenizer import Tokenizer
from lookleft.text.vocab import BYTE_PIECE

_BROKEN = "\ufffd"  # what a decoder writes for bytes that are no character, or none yet
_CONTEXT = 8  # tokens before the text that are decoded with it: a space may depend on them
_AT_ONCE = 64  # tokens that are decoded together; what is before them is certain


class TextStream:
    """The text of one answer while it grows."""

    def __init__(
        self, tokenizer: Tokenizer, stops: Sequence[str] = (), before: Sequence[int] = ()
    ) -> None:
        """`before`: the tokens that the answer continues; it begins where their text ends."""
        if "" in stops:
            raise InputError("a stop string is empty: it would stop before the first token")
        self._tokenizer, self._stops = tokenizer, tuple(stops)
        self._head = ""  # the text of the tokens that are no longer looked at
        self._begin(list(before))
        self._n_shown = 0
        self.text = ""  # all of it, as far as it is settled
        self.is_stopped = False  # a stop string was met; the text ends before it

    def _begin(self, before: list[int]) -> None:
        """Go on behind these tokens."""
        self._before = before[-_CONTEXT:]
        self._skipped = self._tokenizer.decode(self._before) if self._before else ""
        self._ids: list[int] = []

    def push(self, id: int) -> str:
        """Take a token; get what can be shown now, perhaps nothing."""
        if self.is_stopped:
            return ""
        self._ids.append(id)
        n_settled = len(self._ids)
        # A byte changes how the bytes right before it read, so a run of them waits for its end.
        while n_settled and BYTE_PIECE.fullmatch(self._tokenizer.piece(self._ids[n_settled - 1])):
            n_settled -= 1
        text = self._decoded(n_settled)
        self._settle(text.rstrip(_BROKEN))
        if n_settled == len(self._ids) >= _AT_ONCE and not text.endswith(_BROKEN):
            self._head = text
            self._begin([*self._before, *self._ids])
        if self.is_stopped:
            return self._show(len(self.text))
        places = boundaries(self.text[self._n_shown :])
        end = min(places[-2] if len(places) > 1 else 0, self._stop_may_start() - self._n_shown)
        return self._show(self._n_shown + max(place for place in places if place <= end))

    def finish(self) -> str:
        """The answer is complete: get the rest."""
        if not self.is_stopped:
            self._settle(self._decoded(len(self._ids)))
        return self._show(len(self.text))

    def _decoded(self, n_ids: int) -> str:
        text = self._tokenizer.decode([*self._before, *self._ids[:n_ids]])
        if text.startswith(self._skipped):
            return self._head + text[len(self._skipped) :]
        return self._head + self._tokenizer.decode(self._ids[:n_ids])

    def _settle(self, text: str) -> None:
        """Take the text up to the stop string that is complete first."""
        ends = [(text.index(stop) + len(stop), stop) for stop in self._stops if stop in text]
        if ends:
            end, stop = min(ends, key=lambda found: (found[0], -len(found[1])))
            text, self.is_stopped = text[: end - len(stop)], True
        self.text = text

    def _stop_may_start(self) -> int:
        """Where the longest end of the text stands that a stop string begins with."""
        text = self.text
        longest = 0
        for stop in self._stops:
            sizes = range(min(len(stop) - 1, len(text)), longest, -1)
            longest = next((n for n in sizes if text.endswith(stop[:n])), longest)
        return len(text) - longest

    def _show(self, end: int) -> str:
        piece = self.text[self._n_shown : end]
        self._n_shown = max(self._n_shown, end)
        return piece
