"""Policy functions (secret detectors) and redaction."""
