"""`lookleft chat`: a conversation with a model that was taught to hold one."""

from __future__ import annotations

import json
from typing import Annotated

from cyclopts import Parameter

from lookleft.cli.drawing import AUTOMATIC, GREEDY, Computing, Drawing
from lookleft.cli.talk import ask, say, show_pieces, use_threads
from lookleft.errors import InputError


def chat(
    model: str,
    *,
    system: str | None = None,
    max_new: int = 512,
    drawing: Drawing = GREEDY,
    computing: Computing = AUTOMATIC,
    json_: Annotated[bool, Parameter(name="--json", negative="")] = False,
) -> None:
    """Talk with MODEL: one message a line; :new forgets the conversation, :q leaves.

    The model must bring a chat template, which is run in a sandbox with limits.

    Examples:
      lookleft chat model.gguf
      echo "Name three colours." | lookleft chat model.gguf --max-new 40

    Parameters
    ----------
    model
        A model folder or .gguf file of a language model with a chat template.
    system
        What the model is told before the conversation.
    max_new
        The longest reply in tokens.
    json_
        Print one JSON object a reply, when it is whole: {"text", "tokens", "finish"}.
    """
    from lookleft.api import load
    from lookleft.generate.chat import Conversation, check_chats, turn_ends
    from lookleft.generate.methods import choose

    use_threads(computing.threads)
    way = choose(**drawing.options)
    loaded = load(model, engine=computing.engine, activations=computing.activations)
    check_chats(loaded)
    runner = loaded.runner(is_cached=computing.cache, say=say)
    ends = [] if loaded.tokenizer is None else turn_ends(loaded.tokenizer)
    writer = loaded.writer(way, max_new=max_new, ends=ends, runner=runner)
    conversation = Conversation(loaded, writer, system)
    for line in ask("you> "):
        if line == ":new":
            conversation = Conversation(loaded, writer, system)
            continue
        try:
            written = show_pieces(conversation.reply(line), is_shown=not json_)
        except InputError as error:
            if json_:
                print(json.dumps({"error": str(error)}, ensure_ascii=False), flush=True)
            say(f"error: {error}")
            continue
        if json_:
            told = {"text": written.text, "tokens": len(written.ids), "finish": written.finish}
            print(json.dumps(told, ensure_ascii=False), flush=True)
        elif written.finish == "length":
            is_full = len(written.ids) < max_new
            way_out = (
                "the model reads no more; :new begins anew" if is_full else "--max-new gives more"
            )
            say(f"(cut at {len(written.ids)} tokens: {way_out})")
