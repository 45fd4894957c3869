"""Items of a feed as tensors: which kind of batch a task trains on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from lookleft.data.batch import Batch, pack_documents, translation_batch
from lookleft.data.bucket import Row, cut_documents, fill_rows
from lookleft.data.cover import Cover
from lookleft.data.examples import Example
from lookleft.text.tokenizer import Tokenizer


@dataclass(frozen=True)
class BatchMaker:
    """Makes batches for one run; the shift by one happens in data/batch.py."""

    start_id: int = 0  # what the decoder of a translator reads first
    cover: Cover | None = None  # of masked-token models
    is_stream: bool = False  # the rows of one long text are numbered, in each epoch, not its lines

    def __call__(
        self,
        items: Sequence[Example | Row],
        *,
        key: str,
        length: int | None = None,
        epoch: int = 0,
    ) -> Batch:
        """The items, which are of that epoch, as one batch.

        All chance depends on `key`, so a run that is taken up covers what it would have covered.
        With `length`, packed rows are cut to that length first; tokens and targets stay the same.
        """
        examples = [item for item in items if isinstance(item, Example)]
        if examples:
            batch = self._of_examples(examples, key)
            lines = tuple(each.line for example in examples for each in example.apart)
            return replace(batch, lines=lines)
        rows = [item for item in items if not isinstance(item, Example)]
        documents = [document for row in rows for document in row]
        if length is not None:
            rows = fill_rows(cut_documents(documents, length), length)
        batch = pack_documents([[document.target for document in row] for row in rows])
        lines = tuple(sorted({document.line for document in documents}))
        return replace(batch, lines=lines, epoch=epoch if self.is_stream else None)

    def _of_examples(self, examples: Sequence[Example], key: str) -> Batch:
        targets = [example.target for example in examples]
        if self.cover is not None:
            return self.cover.batch(targets, key)
        return translation_batch([example.source for example in examples], targets, self.start_id)


def cover_for(tokenizer: Tokenizer) -> Cover:
    """Cover tokens of this vocabulary with its mask token."""
    specials = tokenizer.specials
    return Cover(len(tokenizer), specials.require("mask"), frozenset(specials.as_dict().values()))
