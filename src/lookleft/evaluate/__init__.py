"""How good a model is: log-probabilities and scores."""
