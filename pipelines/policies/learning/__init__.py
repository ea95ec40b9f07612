"""Trains detectors: labelled texts, noise, an encoder or spaCy's entity recogniser, and thresholds for a recall."""
