"""Privacy accounting: from events to epsilon, and from epsilon to stated guarantees. Imports no torch."""
