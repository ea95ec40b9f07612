"""How much redaction missed: m, gamma and delta2, three different numbers with their intervals."""
