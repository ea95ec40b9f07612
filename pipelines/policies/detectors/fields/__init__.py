"""The policy ``fields``: reads structure inside a text, and judges each value by the name of its field."""
