"""`lookleft check`: config, data, size, causality and cost of a run that nobody has begun yet."""

from __future__ import annotations

import json
import resource
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

if TYPE_CHECKING:
    from lookleft.train.run import Run
    from lookleft.train.settings import RunSettings

N_TIMED = 4  # steps; the first is left out of the estimate: it pays for starting up
LENGTH = 16  # positions that the audit of the untrained model looks at


def check(
    *config: Annotated[str, Parameter(allow_leading_hyphen=True)],
    out: Path | None = None,
    device: Literal["auto", "cpu", "cuda", "mps"] | None = None,
    threads: int | None = None,
    seed: int | None = None,
    json_: Annotated[bool, Parameter(name="--json", negative="")] = False,
) -> int:
    """Look at a config and its data, and estimate what the run costs; nothing is kept.

    All settings with their meaning: lookleft config keys

    Examples:
      lookleft check demo/lookleft.toml
      lookleft check multi30k-en-de --data.dir ../multi30k --model.d-model 256

    Parameters
    ----------
    config
        A TOML file or a recipe, then settings as --section.name value.
    out
        Also write what was found to this file, as JSON.
    device
        Where to compute: auto, cpu, cuda or mps.
    threads
        How many CPU threads to use.
    seed
        Of all chance in the run.
    json_
        Print JSON.
    """
    from lookleft.cli.recipes import find_config
    from lookleft.cli.talk import use_threads
    from lookleft.cli.words import given_settings
    from lookleft.files import ready_to_write, write_json
    from lookleft.train.settings_file import read_settings

    use_threads(threads)
    word, given = given_settings(config, check, device=device, seed=seed)
    settings = read_settings(None if word is None else find_config(word), given)
    if out is not None:
        ready_to_write(out)  # before minutes of work
    found = look(settings)
    if out is not None:
        write_json(out, found)
    if json_:
        print(json.dumps(found, ensure_ascii=False))
    else:
        print("\n".join(f"  {name:<10} {state:<7} {text}" for name, state, text in lines(found)))
        if out is not None:
            print(f"wrote {out}", file=sys.stderr)
    return 1 if found["causality"]["verdict"] == "DISPROVED" else 0


def look(settings: RunSettings) -> dict[str, Any]:
    """Everything that can be said without training, by name."""
    import torch

    from lookleft.train.budget import fit_steps
    from lookleft.train.keys import all_keys
    from lookleft.train.run import Run
    from lookleft.train.survey import survey

    values = settings.model_dump()
    keys = all_keys()
    changed = [
        key.path
        for key in keys
        if (values[key.section][key.name] if key.section else values[key.name]) != key.default
    ]
    # A real run in a folder that vanishes: what is timed is what will be run.
    with tempfile.TemporaryDirectory(prefix="lookleft-check-") as folder:
        run = Run.start(Path(folder) / "run", timed(settings))
        data = survey(settings, run.tokenizer, run.source_tokenizer)
        causality = audited(run)
        one_pass = seconds_per_pass(run)
    steps, minutes = settings.train.steps, settings.train.minutes
    objective, n_fit = settings.train.objective, steps
    if minutes is not None:
        n_fit = fit_steps(steps, minutes, one_pass=one_pass, objective=objective).n_fit
    return {
        "config": {"options": len(keys), "changed": changed},
        "task": settings.task,
        "languages": settings.data.languages,
        "max_tokens": settings.data.max_tokens,
        "data": asdict(data),
        "tokenizer": {
            "kind": settings.text.kind,
            "size": len(run.tokenizer),
            "source_tokens_per_word": data.source.tokens_per_word,
            "target_tokens_per_word": data.target.tokens_per_word,
            "target_devanagari": data.target.devanagari_share,
        },
        "model": {
            "parameters": run.model.n_parameters,
            "layers": settings.model.n_layers,
            "encoder_layers": settings.model.n_encoder_layers or settings.model.n_layers,
            "d_model": settings.model.d_model,
            "heads": settings.model.n_heads,
        },
        "causality": causality,
        "cost": {
            "steps": steps,
            "minutes": minutes,
            "steps_that_fit": n_fit,
            "seconds": one_pass * objective.n_passes(0, steps),
            "peak_bytes": peak_bytes(),
            "device": str(run.model.device),
            "threads": torch.get_num_threads(),
        },
    }


def peak_bytes() -> int:
    """The most memory that this process has held so far."""
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else most * 1024  # others count in kilobytes


def timed(settings: RunSettings) -> RunSettings:
    """The same run, telling every step and pausing for nothing; nobody judges its translations."""
    pauses = {"eval_every": 10**9, "save_every": 10**9}
    train = settings.train.model_copy(
        update={"log_every": 1, "track": (), "choose": "loss", "minutes": None} | pauses
    )
    return settings.model_copy(update={"train": train})


def seconds_per_pass(run: Run) -> float:
    """What a step of one pass takes, the first left out; evaluations are not counted."""
    ends: list[float] = []
    for event in run.train(lambda: len(ends) >= N_TIMED):
        ends.append(event.seconds)
    objective = run.settings.train.objective
    if len(ends) == 1:
        return ends[0] / objective.n_passes(0, 1)
    return (ends[-1] - ends[0]) / objective.n_passes(1, len(ends))


def audited(run: Run) -> dict[str, Any]:
    """Whether the architecture sees the future, with the weights it begins with."""
    from lookleft.audit.run import audit
    from lookleft.evaluate.audited import capabilities

    if run.settings.task == "mlm":
        return {"verdict": "BOTH WAYS", "seconds": 0.0}
    subject = run.model.audit_subject()
    report = audit(subject, **capabilities(subject), quick=True, length=LENGTH)
    return {"verdict": str(report.verdict), "seconds": report.seconds}


def lines(found: dict[str, Any]) -> list[tuple[str, str, str]]:
    """What was found as (topic, state, sentence)."""
    data, tokenizer, model, cost = (found[k] for k in ("data", "tokenizer", "model", "cost"))
    source, target = found["languages"]
    is_translation = found["task"] == "translate"
    told = [
        (
            "config",
            "ok",
            f"{found['config']['options']} options, {len(found['config']['changed'])} changed from "
            f"defaults",
        ),
        ("data", "ok", f"train {data['n_train']:,} · dev {data['n_dev']:,} {data['unit']}"),
    ]
    if not data["is_whole"]:
        told.append(("", "note", f"only the first {data['n_train']:,} records were looked at"))
    for part, n_over in (("train", data["n_too_long"]), ("dev", data["n_dev_too_long"])):
        if n_over:
            over = f"{n_over:,} pairs of {part} longer than {found['max_tokens']} tokens"
            options = "(--data.max-tokens, --train.tokens)"
            told.append(("", "note", f"{over} will be left out    {options}"))
    for part, left_out in (("train", data["left_out"]), ("dev", data["dev_left_out"])):
        if left_out:
            told.append(("", "note", f"left out of {part}: {left_out}"))
    if data["n_shared"]:
        told.append(("", "note", f"also in train: {data['n_shared']:,} of the dev sentences"))
    if data["target"]["n_not_nfc"]:
        told.append(("", "note", f"{data['target']['n_not_nfc']:,} targets are not NFC"))
    if tokenizer["target_devanagari"] > 0.01:
        share = f"target is {tokenizer['target_devanagari']:.1%} Devanagari"
        told.append(("script", "ok", share))
    per_word = f"{tokenizer['target_tokens_per_word']:.2f} tokens/word {target or 'target'}"
    if is_translation:
        ours = f"{tokenizer['source_tokens_per_word']:.2f} tokens/word {source or 'source'}"
        per_word = f"{ours} · {per_word}"
    told.append(("tokenizer", "plan", f"{tokenizer['kind']} {tokenizer['size']:,} · {per_word}"))
    layers = f"{model['layers']} layers"
    if is_translation:
        layers = f"{model['encoder_layers']}+{model['layers']} layers"
    size = f"{model['parameters']:,} parameters · {model['parameters'] * 4 / 1e6:.1f} MB"
    told.append(
        ("model", "ok", f"{layers} · d {model['d_model']} · {model['heads']} heads · {size}")
    )
    told.append(_causality(found["causality"]["verdict"], is_translation))
    minutes = cost["seconds"] / 60
    told.append(
        (
            "cost",
            "est.",
            f"{cost['steps']:,} steps ≈ {minutes:,.1f} min on {cost['device']} ({cost['threads']} "
            f"threads), evaluations not counted · peak memory ≈ {cost['peak_bytes'] / 1e9:.1f} GB",
        )
    )
    if cost["minutes"] is not None:
        n_fit, budget = cost["steps_that_fit"], f"{cost['minutes']:g} minutes"
        rest = f"{n_fit:,} of them fit into {budget}, the others will be left out"
        text = f"all of them fit into {budget}" if n_fit == cost["steps"] else rest
        text += ", evaluations not counted"
        told.append(("", "note", f"{text}    (--train.minutes)"))
    return told


def _causality(verdict: str, is_translation: bool) -> tuple[str, str, str]:
    if verdict == "BOTH WAYS":
        return "causality", "ok", "sees both ways, as a masked-token model is meant to"
    if verdict == "VERIFIED":
        also = " · encoder sees both ways, as intended" if is_translation else ""
        return "causality", "PASS", f"decoder sees no future position{also}"
    if verdict == "DISPROVED":
        return "causality", "LEAK", "this model PEEKS at the future: its loss will mean nothing"
    return "causality", "open", "the audit could not tell: lookleft audit says why"
