"""The gate before the public root: what was masked somewhere must stand unmasked nowhere."""
