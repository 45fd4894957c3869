"""What things cost on this machine, measured beside something known: one file per job."""
