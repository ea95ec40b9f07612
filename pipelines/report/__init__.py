"""The self-contained HTML and JSON report."""
