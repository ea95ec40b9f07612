"""The policy ``identifiers``: finds identifiers of one person, account or thing by their form or by cues."""
