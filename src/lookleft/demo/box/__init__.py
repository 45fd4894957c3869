"""Making the translator that comes with lookleft: measured, audited, with its card."""
