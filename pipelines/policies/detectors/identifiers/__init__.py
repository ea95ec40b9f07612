"""Policy ``identifiers``: what points at one person, account or thing, by the form of it or by what announces it."""
