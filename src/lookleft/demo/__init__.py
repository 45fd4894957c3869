"""The story of masked attention on a small translator: what is measured, and the page it makes."""
