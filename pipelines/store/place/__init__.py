"""Where a store is and what it is: its roots, locks, seals, encryption, identity and location."""
