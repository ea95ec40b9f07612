"""Measured misses of redaction: m, gamma and delta2, three different rates with their intervals."""
