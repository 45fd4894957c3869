"""Files to ids to batches."""
