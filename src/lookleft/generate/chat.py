"""A conversation with a language model that was taught to hold one."""

from __future__ import annotations

from collections.abc import Generator

from lookleft.bundle import Bundle
from lookleft.errors import InputError
from lookleft.generate.template import render
from lookleft.generate.write import Writer, Written
from lookleft.text.tokenizer import Tokenizer

# Tokens that end a turn. Which of them a model uses is not always written down.
TURN_ENDS = ("<|im_end|>", "<|eot_id|>", "<|end|>", "<end_of_turn>", "<|end_of_turn|>")


def turn_ends(tokenizer: Tokenizer) -> list[int]:
    """The ids of the tokens that end a turn, as far as the vocabulary has them."""
    ids = [tokenizer.id_of(piece) for piece in TURN_ENDS]
    return [id for id in ids if id is not None]


def check_chats(bundle: Bundle) -> str:
    """The template of a model that chats, or an error that says why it does not."""
    if bundle.chat_template is None:
        raise InputError(
            "this model has no chat template, so nobody taught it turns; use generate instead"
        )
    return bundle.chat_template


class Conversation:
    """Messages so far; each reply is streamed and then remembered."""

    def __init__(self, bundle: Bundle, writer: Writer, system: str | None = None) -> None:
        self._template = check_chats(bundle)
        self._tokenizer, self._writer = writer.tokenizer, writer
        self.messages: list[dict[str, str]] = []
        if system is not None:
            self.messages.append(self._message("system", system))

    def reply(self, text: str) -> Generator[str, None, Written]:
        """The model's answer in pieces; returns all of it. A turn that fails is forgotten."""
        if not text.strip():
            raise InputError("the message is empty: there is nothing to reply to")
        turn = self._message("user", text)
        prompt = self.prompt([*self.messages, turn])
        written = yield from self._writer.stream(prompt)
        self.messages += [turn, {"role": "assistant", "content": written.text}]
        return written

    def prompt(self, messages: list[dict[str, str]]) -> list[int]:
        """The ids of a conversation, up to where the model goes on."""
        specials = self._tokenizer.specials.as_dict()
        names = {f"{role}_token": self._tokenizer.piece(id) for role, id in specials.items()}
        text = render(self._template, messages, **names)
        return self._tokenizer.encode(text, parse_specials=True)

    def _message(self, role: str, text: str) -> dict[str, str]:
        """A message, if it is only text: a control token inside would end the turn early."""
        plain = self._tokenizer.encode(text)
        if self._tokenizer.encode(text, parse_specials=True) != plain:
            raise InputError(
                f"the message has a control token of this model in it: {text!r:.80}; leave it out"
            )
        return {"role": role, "content": text}
