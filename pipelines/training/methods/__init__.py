"""Training methods, one module each: ``prepare(corpus, settings)`` (`base`). What each is says `pipelines.methods`."""
