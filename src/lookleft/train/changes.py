"""What may change between two sittings of a run, and what else changes then."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path

from lookleft.data.bucket import Position
from lookleft.errors import ConfigError
from lookleft.train.budget import used_up
from lookleft.train.checkpoint import Progress
from lookleft.train.keys import all_keys, changed_keys
from lookleft.train.report import read_if_there
from lookleft.train.settings import RunSettings

# What decides which examples come when.
ORDER = (
    *("train.seed", "train.tokens", "train.length", "train.length_warmup"),
    *("data.train", "data.origins", "data.add_phrases", "data.skip_empty", "data.max_tokens"),
    *("data.bpe_dropout", "data.joined", "data.stream", "data.dev_share", "data.document_end"),
)
# What the score of a model depends on besides the model: figures that differ in it do not compare.
# The target language says how sacreBLEU cuts words where nobody did.
UNIT = ("train.choose", "train.eval_sentences", "train.bleu_tokenize", "data.target")
# What decides which texts of the dev set are measured, and how they are cut.
_MEASURED = (
    *("data.max_tokens", "data.skip_empty", "data.origins", "data.dev_share"),
    *("data.document_end", "train.length"),
)
_FREE = ("model.dropout",)  # of [model]: it is in no weight


def check_same_network(before: RunSettings, now: RunSettings, folder: Path) -> None:
    """Raise if the weights of a run would be put into another network, or meet other tokens."""
    fixed = [key.path for key in all_keys() if key.section in ("", "text", "model")]
    if now.task == "mlm" and now.model.positions is None:
        fixed.append("train.length")  # so many places are learned
    changed = changed_keys(before, now, [path for path in fixed if path not in _FREE])
    if (before.train.matrix_lr is None) != (now.train.matrix_lr is None):
        changed.append("train.matrix_lr")  # its optimiser remembers other things
    if changed:
        raise ConfigError(
            f"{', '.join(changed)}: cannot be changed in a run that is begun ({folder}), its "
            f"weights were made for what it was. Leave that as it is, or begin a new run"
        )


def made_by(settings: RunSettings, progress: Progress) -> Progress:
    """The progress of a run that goes on with these settings."""
    return replace(progress, settings=settings.model_dump(mode="json"))


def led_to(progress: Progress) -> RunSettings | None:
    """The settings under which the steps so far were made, if they were noted.

    config.toml may be ahead of them: it is written when settings change, and a process that is
    killed before its next save leaves a checkpoint from before the change.
    """
    if progress.settings is None:
        return None
    return RunSettings.parse(dict(progress.settings), f"the checkpoint of step {progress.step}")


def carried_on(
    progress: Progress, before: RunSettings, now: RunSettings, folder: Path, n_processes: int = 1
) -> Progress:
    """The progress of a run that goes on with settings that may be others than before."""
    is_replayed = before == now and progress.position["n_processes"] == n_processes
    if changed_keys(before, now, ORDER):
        progress = replace(progress, position=asdict(_begin_of_window(progress, now)))
    unit = ("train.choose",) if now.train.choose == "loss" else UNIT
    # Without a dev set nothing would ever be better: all steps from here on would be for nothing.
    is_unmeasured = now.data.dev_set is None
    is_abandoned = not is_replayed and _is_best_abandoned(folder, progress)
    measured = [*unit, *_MEASURED]
    if now.task == "mlm":  # which tokens are covered up hangs on the batches
        measured.append("train.tokens")
        is_abandoned |= progress.position["n_processes"] != n_processes
    if changed_keys(before, now, measured) or is_unmeasured or is_abandoned:
        progress = replace(progress, best=None, best_step=0, n_without_gain=0)
    return used_up(now.train, progress)


def _begin_of_window(progress: Progress, now: RunSettings) -> Position:
    """Where data goes on in another order: with the batches of this window cut anew.

    The rows of a stream are counted, not its lines: cut otherwise, its epoch begins again.
    """
    position = Position(**progress.position)
    if now.data.stream:
        return Position(epoch=position.epoch, n_processes=position.n_processes)
    return replace(position, batch=0, before="")


def _is_best_abandoned(folder: Path, progress: Progress) -> bool:
    """Whether the best model that was kept comes after the checkpoint.

    The same steps would make it again. Others may not, and the one of before is overwritten.
    """
    step = read_if_there(folder / "scores.json").get("step")
    return isinstance(step, int) and step > progress.step
