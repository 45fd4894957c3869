"""`lookleft chat`: a conversation with a model that was taught to hold one."""

from __future__ import annotations

from typing import Annotated, Literal

from cyclopts import Parameter

from lookleft.cli.talk import ask, say, show_pieces, use_threads
from lookleft.errors import InputError


def chat(
    model: str,
    *,
    system: str | None = None,
    max_new: int = 512,
    temperature: float = 0.0,
    top_k: int = 0,
    top_p: float = 1.0,
    min_p: float = 0.0,
    seed: int = 0,
    repetition_penalty: float = 1.0,
    engine: Literal["auto", "torch", "numba"] = "auto",
    cache: Annotated[bool, Parameter(negative="--no-cache")] = True,
    threads: int | None = None,
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
    temperature
        Above 0, tokens are drawn: below 1 likelier ones more often, above 1 less.
    top_k
        Draw from so many of the likeliest tokens; 0: from all.
    top_p
        Draw from the likeliest tokens whose probabilities reach this sum.
    min_p
        Draw from tokens at least this likely, relative to the likeliest.
    seed
        Of the draws.
    repetition_penalty
        Above 1, tokens that have occurred get less likely.
    engine
        What computes: auto takes the compiled engine where it can.
    cache
        --no-cache reads the whole conversation again for every token.
    threads
        Of the processor; unset: all.
    """
    from lookleft.api import load
    from lookleft.generate.chat import Conversation, check_chats, turn_ends
    from lookleft.generate.methods import choose

    use_threads(threads)
    way = choose(
        temperature=temperature,
        top_k=top_k,
        top_p=top_p,
        min_p=min_p,
        seed=seed,
        repetition=repetition_penalty,
    )
    loaded = load(model, engine=engine)
    check_chats(loaded)
    runner = loaded.runner(is_cached=cache, say=say)
    ends = [] if loaded.tokenizer is None else turn_ends(loaded.tokenizer)
    writer = loaded.writer(way, max_new=max_new, ends=ends, runner=runner)
    conversation = Conversation(loaded, writer, system)
    for line in ask("you> "):
        if line == ":new":
            conversation = Conversation(loaded, writer, system)
            continue
        try:
            written = show_pieces(conversation.reply(line))
        except InputError as error:
            say(f"error: {error}")
            continue
        if written.finish == "length":
            say(f"(cut at {len(written.ids)} tokens; --max-new gives more room)")
