"""Token by token: the decode loop and ways to pick the next token. Speaks ids, not strings."""
