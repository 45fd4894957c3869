"""Text in, a trained model out: loss, schedules, optimisers, the loop, checkpoints."""
