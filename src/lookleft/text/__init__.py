"""Text to ids and back: train, load, save, encode, decode."""
