"""One file per policy: what finds secrets in text and tokens."""
