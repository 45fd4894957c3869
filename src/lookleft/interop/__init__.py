"""Foreign formats, one file each: read from and written to lookleft's own networks."""
