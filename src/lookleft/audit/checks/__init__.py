"""The checks: one function each, from a session and a setting to a finding."""
